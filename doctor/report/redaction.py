"""What of a person's machine stays out of reports: variables' values, its name, home folders.

Reports are pasted into issues and shown by CI; facts files hold what was found and say so.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, get_args

import msgspec

from doctor.facts.machine import Host
from doctor.judge.catalog import CHECKS
from doctor.judge.check import Check
from doctor.report.report import Report

HIDDEN = "[redacted]"
Step = tuple[str, re.Pattern[str], str]
"""What a text must hold for the pattern to be looked for, the pattern, and what stands instead,
as `re.sub` takes it.
"""
_NAME = r"[^/\s:;,'\"()\[\]<>]+"
HOMES: tuple[Step, ...] = tuple(
    (folder, re.compile(rf"(?<![\w.~/-]){folder}{name}(?![\w.-])"), "~")
    for folder, name in (("/home/", _NAME), ("/Users/", _NAME), ("/root", ""))
)
SECRETS: tuple[Step, ...] = (
    *(
        (begin, re.compile(rf"\b{begin}[A-Za-z0-9_-]{{16,}}"), HIDDEN)
        for begin in (
            "hf_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "sk-", "xoxb-",
            "xoxp-", "AKIA", "ASIA", "AIza", "nvapi-", "pypi-", "eyJ",
        )
    ),
    ("?", re.compile(r"(://[^\s?'\"<>]*\?)[^\s'\"<>]+"), rf"\1{HIDDEN}"),
    ("@", re.compile(r"(?<=://)[^/\s@]+(?=@)"), HIDDEN),
)  # fmt: skip
"""Tokens by their known beginnings, and what stands before the @ or behind the ? of an address."""
SWITCH = re.compile(
    r"[\d\s,.:+-]{0,16}|true|false|on|off|yes|no|y|n|all|none|void|version|info|warn|trace|detail"
    r"|(?:(?:GPU|MIG)-[0-9a-fA-F/-]+,?)+",
    re.IGNORECASE,
)
"""Values that tell nothing of anyone and that remedies are about: numbers, words, GPUs' UUIDs."""
LONGEST = 4096
"""Characters of a value, a name or a path that are looked for: no pattern is made of more."""
KEYS = ("fail_on", "sources", "code")
"""Fields that name something of the doctor's own."""
_WORD = re.compile(r"[^\W_]+")
ELSEWHERE = ("localhost localdomain none nvidia tesla geforce quadro rtx a100 h100 h200 b200 l4",)
"""Words that are no one's name, beside those of the catalogue."""
MOST = 200
"""Variables that are looked for: more than are ever recorded."""
SHORT = 3
"""Letters of a name that is not looked for: it would be found in every text."""
SYSTEM = ("/dev/", "/proc/", "/sys/")
"""Where no one's own home is, while remedies are about what is there: /dev/shm."""


def redact(report: Report, *, keep_names: bool = False) -> Report:
    """The report with texts and facts that tell less of whose machine it is.

    Values of variables become "[redacted]" unless they are switches, home folders "~", and the
    host's name "[host]". The catalogue's own texts are left as they are. With `keep_names` only
    what looks like a token or a password goes.
    """
    host = report.facts.host
    if keep_names or not isinstance(host, Host):
        host = Host(system="")
    else:
        hidden = {name: _value(said) for name, said in host.env.items()}
        bare = msgspec.structs.replace(host, env=hidden, name="", home="")
        report = dataclasses.replace(report, facts=report.facts.with_(host=bare))
    return _mapped(report, _cleaner(host, keep_names))  # type: ignore[no-any-return]


def _cleaner(host: Host, keep_names: bool) -> Callable[[str], str]:
    steps = [*SECRETS, *([] if keep_names else _steps(host))]

    def clean(text: str) -> str:
        for mark, pattern, instead in steps:
            if mark in text:
                text = pattern.sub(instead, text)
        return text

    return clean


def _steps(host: Host) -> Iterator[Step]:
    for name, value in islice(host.env.items(), MOST):
        yield from _of_variable(name, value)
    folder = host.home.rstrip("/")[:LONGEST]
    if folder.startswith("/") and folder.count("/") > 1 and not folder.startswith(SYSTEM):
        home = re.compile(rf"(?<![\w.~/-]){re.escape(folder)}(?![\w.-])")
        yield folder, home, "~"
    yield from HOMES
    whole = host.name[:LONGEST]
    names = dict.fromkeys((whole, whole.split(".")[0]))
    if either := "|".join(re.escape(name) for name in names if not _tells_nothing(name)):
        yield "", re.compile(rf"(?<![\w-])(?:{either})(?![\w-])", re.IGNORECASE), "[host]"


def _tells_nothing(name: str) -> bool:
    """Whether a name is made of the catalogue's own words and numbers: "gpu-01", "torch"."""
    parts = _WORD.findall(name.casefold())
    own = _own_words()
    return len(name) <= SHORT or all(p in own or p.rstrip("0123456789") in own for p in parts)


@functools.cache
def _own_words() -> frozenset[str]:
    """Words that a report says of any machine."""
    texts = [" ".join((c.slug, c.title, c.why, c.fix, *c.commands)) for c in CHECKS]
    return frozenset(_WORD.findall(" ".join([*texts, *ELSEWHERE]).casefold())) | {""}


def _of_variable(name: str, value: str) -> Iterator[Step]:
    """Behind its name in any case; alone too where it is long and no path that remedies name."""
    if SWITCH.fullmatch(value.strip()):
        return
    value = value[:LONGEST]
    line = " ".join(value.split())
    told = "|".join(re.escape(part) for part in (value, line) if part)
    cut = re.escape(line[:12]) + r"(?:[^;()]*[^;()\s])?"
    instead = f"{name}={HIDDEN}".replace("\\", r"\\")
    yield f"{name}=", re.compile(rf"\b{re.escape(name)}=(?:{told}|{cut})"), instead
    if len(line) > 5 and "/" not in line and not _tells_nothing(line):
        yield line[:6], re.compile(told), HIDDEN


def _mapped(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, msgspec.Struct):
        return _record(value, clean)
    if isinstance(value, (Check, enum.Enum)):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(part, clean) for part in value) if value else value
    if isinstance(value, Mapping):
        return {_mapped(key, clean): _mapped(part, clean) for key, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _made_anew(value, clean)
    return value


def _value(said: str) -> str:
    return said if SWITCH.fullmatch(said.strip()) else HIDDEN


def _record(value: msgspec.Struct, clean: Callable[[str], str]) -> Any:
    changed = {}
    for name, literals in _fields(type(value)):
        old = getattr(value, name)
        new = old if old in literals else _mapped(old, clean)
        if new is not old:
            changed[name] = new
    return msgspec.structs.replace(value, **changed) if changed else value


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Names of the fields, each with the literals that it may be."""
    return tuple((field.name, get_args(field.type)) for field in msgspec.structs.fields(kind))


def _made_anew(value: Any, clean: Callable[[str], str]) -> Any:
    changed = {
        field.name: _mapped(getattr(value, field.name), clean)
        for field in dataclasses.fields(value)
        if field.name not in KEYS
    }
    return dataclasses.replace(value, **changed)
