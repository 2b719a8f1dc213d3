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

from doctor.model import Check
from doctor.report import Report
from doctor.sections import Host

HIDDEN = "[redacted]"
Step = tuple[str, re.Pattern[str], str]
"""What a text must hold for the pattern to be looked for, the pattern, and what stands instead."""
_NAME = r"[^/\s:;,'\"()\[\]<>]+"
HOMES: tuple[Step, ...] = tuple(
    (folder, re.compile(rf"(?<![\w.~/-]){folder}{name}(?![\w.-])"), "~")
    for folder, name in (("/home/", _NAME), ("/Users/", _NAME), ("/root", ""))
)
SECRETS: tuple[Step, ...] = (
    *(
        (begin, re.compile(rf"\b{begin}[A-Za-z0-9_-]{{16,}}"), HIDDEN)
        for begin in (
            "hf_", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "sk-", "xoxb-", "AKIA",
        )
    ),
    ("@", re.compile(r"(?<=://)[^/\s@]+(?=@)"), HIDDEN),
)  # fmt: skip
"""Tokens by their known beginnings, and what stands before the @ of an address."""
SWITCH = re.compile(
    r"[\d\s,.:+-]{0,16}|true|false|on|off|yes|no|y|n|all|none|void|version|info|warn|trace|detail"
    r"|(?:(?:GPU|MIG)-[0-9a-fA-F/-]+,?)+",
    re.IGNORECASE,
)
"""Values that tell nothing of anyone and that remedies are about: numbers, words, GPUs' UUIDs."""
MOST = 200
"""Variables that are looked for: more than are ever recorded."""
COMMON_NAMES = ("", "localhost", "localhost.localdomain", "(none)")


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
    if len(host.home.strip("/").split("/")) > 1 or host.home.startswith("/root"):
        home = re.compile(rf"(?<![\w.~/-]){re.escape(host.home)}(?![\w.-])")
        yield host.home, home, "~"
    yield from HOMES
    if host.name.casefold() not in COMMON_NAMES:
        names = dict.fromkeys((host.name, host.name.split(".")[0]))
        either = "|".join(re.escape(name) for name in names if name)
        yield "", re.compile(rf"(?<![\w-])(?:{either})(?![\w-])", re.IGNORECASE), "[host]"


def _of_variable(name: str, value: str) -> Iterator[Step]:
    """Behind its name in any case; alone too where it is long and no path that remedies name."""
    if SWITCH.fullmatch(value.strip()):
        return
    line = " ".join(value.split())
    told = "|".join(re.escape(part) for part in (value, line) if part)
    cut = re.escape(line[:12]) + r"(?:[^;()]*[^;()\s])?"
    yield f"{name}=", re.compile(rf"\b{re.escape(name)}=(?:{told}|{cut})"), f"{name}={HIDDEN}"
    if len(line) > 5 and "/" not in line:
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
        if field.name != "fail_on"
    }
    return dataclasses.replace(value, **changed)
