"""Redaction of reports: values of environment variables, the host's name, home directories.

Reports are pasted into issues and shown by CI. Facts files are not redacted, and say so.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from doctor._util.secrets import HIDDEN, hide_in_arguments, hide_secrets
from doctor._util.text_fields import Change, map_texts
from doctor.facts.machine import Host
from doctor.judge.check import PIP, Check
from doctor.report.report import Report

Step = tuple[str, re.Pattern[str], str]
"""A substring that a text must contain before the pattern is tried, the pattern, and its
replacement as `re.sub` takes it.
"""
_NAME = r"[^/\s:;,'\"()\[\]<>]+"
HOMES: tuple[Step, ...] = tuple(
    (root, re.compile(rf"(?<![\w.~/-]){root}{name}(?![\w.-])"), "~")
    for root, name in (("/home/", _NAME), ("/Users/", _NAME), ("/root", ""))
)
SWITCH = re.compile(
    r"[\d\s,.:+-]{0,16}|true|false|on|off|yes|no|y|n|all|none|void|version|info|warn|trace|detail"
    r"|(?:(?:GPU|MIG)-[0-9a-fA-F/-]+,?)+",
    re.IGNORECASE,
)
"""Values that identify nobody and that remedies refer to: numbers, switches, GPUs' UUIDs."""
LONGEST = 4096
"""Characters of a value, a name or a path that go into a pattern."""
KEYS = ("fail_on", "sources", "code")
"""Fields with the doctor's own names."""
_WORD = re.compile(r"[^\W_]+")
COMMON_WORDS = (
    "localhost localdomain none python nvidia tesla geforce quadro rtx a100 h100 h200 b200 l4"
)
"""Words that do not identify a host, beside those of the catalogue."""
MOST = 200
"""Variables that are redacted; fewer are ever recorded."""
SHORT = 3
"""A name of at most this many letters is not redacted: it would match in every text."""
SYSTEM = ("/dev/", "/proc/", "/sys/")
"""No home directory is there, while remedies refer to paths there: /dev/shm."""


def redact(report: Report, *, keep_names: bool = False) -> Report:
    """The report without what identifies the machine's owner, in texts and facts.

    Values of variables become "[redacted]" unless they are switches, home directories "~", and the
    host's name "[host]". The catalogue's own texts are unchanged. With `keep_names` only what looks
    like a token or a password is redacted.
    """
    host = report.facts.host
    if keep_names or not isinstance(host, Host):
        host = Host(system="")
    else:
        env = {name: _redacted_value(value) for name, value in host.env.items()}
        anonymous = msgspec.structs.replace(host, env=env, name="", home="")
        report = dataclasses.replace(report, facts=report.facts.with_(host=anonymous))
    clean = _cleaner(host, keep_names)
    change: Change = {
        "text": clean,
        "product": clean,
        "node": clean,
        "arguments": _in_arguments(clean),
    }
    return _mapped(report, change)  # type: ignore[no-any-return]


def _in_arguments(clean: Callable[[str], str]) -> Callable[[Sequence[str]], tuple[str, ...]]:
    return lambda words: tuple(map(clean, hide_in_arguments(words)))


def _cleaner(host: Host, keep_names: bool) -> Callable[[str], str]:
    steps = [] if keep_names else list(_steps(host))

    def clean(text: str) -> str:
        text = hide_secrets(text)
        for substring, pattern, replacement in steps:
            if substring in text:
                text = pattern.sub(replacement, text)
        return text

    return clean


def _steps(host: Host) -> Iterator[Step]:
    for name, value in islice(host.env.items(), MOST):
        yield from _variable_steps(name, value)
    home = host.home.rstrip("/")[:LONGEST]
    if home.startswith("/") and home.count("/") > 1 and not home.startswith(SYSTEM):
        yield home, re.compile(rf"(?<![\w.~/-]){re.escape(home)}(?![\w.-])"), "~"
    yield from HOMES
    full = host.name[:LONGEST]
    names = dict.fromkeys((full, full.split(".")[0]))
    if either := "|".join(re.escape(name) for name in names if not _is_generic(name)):
        yield "", re.compile(rf"(?<![\w-])(?:{either})(?![\w-])", re.IGNORECASE), "[host]"


def _is_generic(name: str) -> bool:
    """Whether a name consists of the catalogue's own words and numbers: "gpu-01", "torch"."""
    parts = _WORD.findall(name.casefold())
    own = _generic_words()
    return len(name) <= SHORT or all(p in own or p.rstrip("0123456789") in own for p in parts)


@functools.cache
def _generic_words() -> frozenset[str]:
    """Words that reports of any machine contain."""
    from doctor.catalog import MACHINE_CHECKS

    texts = [" ".join((c.slug, c.title, c.why, c.fix, *c.commands)) for c in MACHINE_CHECKS]
    return frozenset(_WORD.findall(" ".join([*texts, PIP, COMMON_WORDS]).casefold())) | {""}


def _variable_steps(name: str, value: str) -> Iterator[Step]:
    """Redact the value after "NAME=", and alone where it is long and not a path."""
    if SWITCH.fullmatch(value.strip()):
        return
    value = value[:LONGEST]
    line = " ".join(value.split())
    complete = "|".join(re.escape(part) for part in (value, line) if part)
    truncated = re.escape(line[:12]) + r"(?:[^;()]*[^;()\s])?"
    replacement = f"{name}={HIDDEN}".replace("\\", r"\\")
    yield f"{name}=", re.compile(rf"\b{re.escape(name)}=(?:{complete}|{truncated})"), replacement
    if len(line) > 5 and "/" not in line and not _is_generic(line):
        yield line[:6], re.compile(complete), HIDDEN


def _mapped(value: object, change: Change) -> Any:
    if isinstance(value, (Check, enum.Enum)):
        return value
    if isinstance(value, tuple):
        return tuple(_mapped(part, change) for part in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return map_texts(value, change)
    changed = {
        field.name: _mapped(getattr(value, field.name), change)
        for field in dataclasses.fields(value)
        if field.name not in KEYS
    }
    return dataclasses.replace(value, **changed)


def _redacted_value(value: str) -> str:
    return value if SWITCH.fullmatch(value.strip()) else HIDDEN
