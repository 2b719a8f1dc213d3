"""msgspec's validation errors as messages that name the key first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from doctor._util.units import shown

EXPECTED = {
    "int": "a whole number",
    "str": "text in quotes",
    "bool": "true or false",
    "float": "a number",
    "array": "a list",
    "object": "a table",
    "date": "a date such as 2026-12-31",
    "null": "nothing",
}
GOT = {**EXPECTED, "str": "text"}
PATTERNS = (("kKMGTP", "a size such as 80GB or 79.5GiB"), ("===?", "a version such as >=2.9"))
"""A part of a regular expression -> what it matches."""


def message(error: str, data: object, kinds: Mapping[str, object]) -> str:
    """One line: the key, what is expected there and the value.

    `error` is msgspec's, about `data`; `kinds` are the types at paths such as ".job.device".
    """
    reason, _, at = error.partition(" - at `$")
    path = at.rstrip("`")
    name, value = readable(path.lstrip(".")), _value_at(data, path)
    if path.endswith("[...]") and (wrong := _wrong_item(reason, data, path)):
        name, value = f'{name}."{shown(wrong[0], 60)}"', f": {shown(repr(wrong[1]), 60)}"
    value = value or _enum_value(reason)
    return f"{name or 'the file'}: {_expectation(reason, path, kinds)}{value}"


def _wrong_item(reason: str, data: object, path: str) -> tuple[str, object] | None:
    """The item of a table that the error is about, where msgspec names the table only."""
    for name in re.findall(r"\w+", path):
        data = data.get(name) if isinstance(data, dict) else None
    regex = re.search(r"matching regex '(.*)'", reason)
    for key, value in data.items() if isinstance(data, dict) else ():
        text = isinstance(value, str)
        if regex:
            wrong = text and not re.search(regex[1].replace("\\\\", "\\"), value)
        else:
            wrong = repr(value) in reason if text else "`str`" in reason
        if wrong:
            return str(key), value
    return None


def readable(path: str) -> str:
    """ "ignore[0].code" -> "[[ignore]] 1: code"."""
    match = re.match(r"ignore\[(\d+)\]\.?", path)
    if not match:
        return path.removesuffix("[...]")
    return f"[[ignore]] {int(match[1]) + 1}: {path[match.end() :]}".rstrip(": ")


def members(kind: object) -> tuple[Any, ...]:
    """The alternatives of a union, or the type itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _expectation(reason: str, path: str, kinds: Mapping[str, object]) -> str:
    if "matching regex" in reason:
        return f"expected {next(words for mark, words in PATTERNS if mark in reason)}"
    if missing := re.search(r"missing required field `(\w+)`", reason):
        return f"{missing[1]} is missing"
    if "Invalid enum value" in reason:
        return f"expected one of {', '.join(_literals(kinds.get(path, kinds[''])))}"
    if "date" in reason:
        return f"expected {EXPECTED['date']}"
    if match := re.match(r"Expected `([^`]+)`(?: ([<>]= \d+))?(?: of length (\d+))?", reason):
        types = [kind for kind in match[1].split(" | ") if kind != "null"]
        expected = " or ".join(EXPECTED.get(kind, kind) for kind in types)
        expected += f" of {match[3]}" if match[3] else f" {match[2]}" if match[2] else ""
        got = re.search(r"got `([^`]+)`", reason)
        return f"expected {expected}" + (f", got {GOT.get(got[1], got[1])}" if got else "")
    return reason


def _literals(kind: object) -> Iterator[str]:
    for member in members(kind):
        if get_origin(member) is Literal:
            yield from get_args(member)


def _enum_value(reason: str) -> str:
    """The value of a table, where msgspec does not name the key."""
    match = re.fullmatch(r"Invalid enum value ('.*')", reason)
    return f": {shown(match[1], 60)}" if match else ""


def _value_at(data: Any, path: str) -> str:
    """The value that the error is about, where it is a short one."""
    for key in re.findall(r"\w+", path):
        try:
            data = data[int(key)] if isinstance(data, list) else data[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return ""
    return f": {shown(repr(data), 60)}" if isinstance(data, str | int | float) else ""
