"""The tables of a job file: their types, decoding, and errors in words; and their JSON Schema."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from doctor._util.units import parse_count, shown
from doctor.job.expect import Expect, Text, specifiers
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

Severity = Literal["warn", "fail"]

NOT_IN_FILE = ("working_dir", "budget", "omitted", "only", "skip")
"""Fields of Job and RunOptions that a job file cannot set."""
COUNTS = ("params", "trainable")
"""Keys that may be written as text: 8B."""


class Ignore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One [[ignore]]: findings that are known and accepted."""

    code: Text
    """A code, a slug or a family."""
    reason: Text
    until: datetime.date | None = None
    """The last day on which it holds."""
    host: Text | None = None
    """A pattern on the host's name."""


def _job_fields() -> list[tuple[str, Any, Any]]:
    fields = [*msgspec.structs.fields(Job), *msgspec.structs.fields(RunOptions)]
    return [(f.name, f.type | str | None if f.name in COUNTS else f.type | None, None)
            for f in fields if f.name not in NOT_IN_FILE]  # fmt: skip


JobTable = msgspec.defstruct(
    "JobTable", _job_fields(), frozen=True, kw_only=True, forbid_unknown_fields=True
)
"""Table [job]: fields of Job and RunOptions, all of them optional."""
JOB_KEYS = tuple(field.name for field in msgspec.structs.fields(JobTable))


class Tables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    job: JobTable | None = None  # type: ignore[valid-type]
    expect: Expect | None = None
    ignore: tuple[Ignore, ...] = ()
    severity: dict[Text, Severity] = {}


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a file says; `job` holds the keys that it names."""

    job: dict[str, Any]
    expect: Expect | None
    ignores: tuple[Ignore, ...]
    severity: dict[str, Severity]


def decode(tables: Mapping[str, Any]) -> Decoded:
    """The file's tables. Raises ValueError with one line that begins with the key."""
    data = _spelled(tables, Tables, "")
    if "expect" in data and isinstance(data["expect"], dict):
        data["expect"] = {"type": "Expect", **_without_type(data["expect"])}
    found: Tables = _converted(data, Tables, strict=True)
    _versions(found.expect)
    job = decode_job(data.get("job", {}))
    return Decoded(job, found.expect, found.ignore, dict(found.severity))


def decode_job(job: Mapping[str, Any], *, text: bool = False) -> dict[str, Any]:
    """The keys of [job] that are set; with `text` the values are variables' words."""
    data: dict[str, Any] = dict(job)
    if text:
        data = {key: _listed(key, value) for key, value in data.items()}
    table = _converted({"job": data}, Tables, strict=not text).job
    given = {key: getattr(table, key) for key in JOB_KEYS if getattr(table, key) is not None}
    for key in COUNTS:
        if isinstance(given.get(key), str):
            try:
                given[key] = parse_count(given[key])
            except ValueError as error:
                raise ValueError(f"job.{key}: {error}") from None
    return given


def _listed(key: str, value: str) -> Any:
    """A variable that stands for a list holds it with commas."""
    listed = key in ("attention", "expect_no_grad")
    return [part.strip() for part in value.split(",")] if listed else value


def _converted(data: dict[str, Any], kind: Any, *, strict: bool) -> Any:
    try:
        return msgspec.convert(data, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(str(error), data)) from None


def _versions(expect: Expect | None) -> None:
    for key in ("driver", "torch", "cuda"):
        wanted = getattr(expect, key, None)
        try:
            specifiers(wanted or "1")
        except ValueError:
            raise ValueError(
                f"expect.{key}: {wanted!r} is no version; write one such as >=2.9"
            ) from None


def _without_type(table: dict[str, Any]) -> dict[str, Any]:
    """msgspec takes the tag's own key for granted; here nobody may write it."""
    if "type" in table:
        raise ValueError(_unknown("type", Expect, "expect"))
    return table


def _spelled(table: Any, kind: Any, at: str) -> Any:
    """The table with keys as the types spell them. Raises ValueError for one that is unknown."""
    if not isinstance(table, dict):
        return table
    known = {field.name: field.type for field in msgspec.structs.fields(kind)}
    told: dict[str, Any] = {}
    for written, value in table.items():
        key = written.replace("-", "_")
        if key not in known:
            raise ValueError(_unknown(written, kind, at))
        if key in told:
            raise ValueError(f"{_path(at, key)} is there twice, with - and with _")
        told[key] = _inside(value, known[key], _path(at, key))
    return told


def _inside(value: Any, kind: Any, at: str) -> Any:
    """The same for a table within, or a list of tables."""
    for member in _members(kind):
        if isinstance(member, type) and issubclass(member, msgspec.Struct):
            return _spelled(value, member, at)
        if get_origin(member) is tuple and get_args(member)[0] is Ignore and type(value) is list:
            return [_spelled(one, Ignore, f"{at}[{n}]") for n, one in enumerate(value)]
    return value


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _path(at: str, key: str) -> str:
    return f"{at}.{key}".lstrip(".")


def _unknown(key: str, kind: Any, at: str) -> str:
    names = [field.name for field in msgspec.structs.fields(kind)]
    (near, *_) = difflib.get_close_matches(key.replace("-", "_").casefold(), names, 1, 0.6) or [""]
    where = _human(at) or "the file"
    known = f"did you mean {near}?" if near else f"{where} knows {', '.join(names)}"
    return f"{_human(_path(at, shown(key)))}: no such key; {known}"


WORDS = {
    "int": "a whole number",
    "str": "text in quotes",
    "bool": "true or false",
    "float": "a number",
    "array": "a list",
    "object": "a table",
    "date": "a date such as 2026-12-31",
    "null": "nothing",
}
GOT = {**WORDS, "str": "text"}
EXAMPLES = (("kKMGTP", "a size such as 80GB or 79.5GiB"), ("===?", "a version such as >=2.9"))


def _in_words(error: str, data: Any) -> str:
    """msgspec's message as a person would say it, the key first."""
    said, _, at = error.partition(" - at `$")
    path = at.rstrip("`")
    value = _value(data, path) or _member(said)
    return f"{_human(path.lstrip('.')) or 'the file'}: {_complaint(said, path)}{value}"


def _member(said: str) -> str:
    """The value of a table whose key msgspec does not name."""
    found = re.fullmatch(r"Invalid enum value ('.*')", said)
    return f": {shown(found[1], 60)}" if found else ""


def _complaint(said: str, path: str) -> str:
    if "matching regex" in said:
        return next(words for mark, words in EXAMPLES if mark in said) + " is wanted"
    if missing := re.search(r"missing required field `(\w+)`", said):
        return f"{missing[1]} is missing"
    if "Invalid enum value" in said:
        return f"one of {', '.join(_choices(path))} is wanted"
    if "date" in said:
        return f"{WORDS['date']} is wanted"
    if found := re.match(r"Expected `([^`]+)`(?: >= (\d+))?(?: of length (\d+))?", said):
        kinds = [kind for kind in found[1].split(" | ") if kind != "null"]
        wanted = " or ".join(WORDS.get(kind, kind) for kind in kinds)
        wanted += f" of {found[3]}" if found[3] else f" from {found[2]} on" if found[2] else ""
        got = re.search(r"got `([^`]+)`", said)
        return f"{wanted} is wanted" + (f", not {GOT.get(got[1], got[1])}" if got else "")
    return said


def _choices(path: str) -> Iterator[str]:
    """What the key at a path may be."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(JobTable)}
    kind = kinds.get(path.removeprefix(".job."), Severity)
    for member in _members(kind):
        if get_origin(member) is Literal:
            yield from get_args(member)


def _human(path: str) -> str:
    """ "ignore[0].code" -> "[[ignore]] 1: code"."""
    found = re.match(r"ignore\[(\d+)\]\.?", path)
    if not found:
        return path.removesuffix("[...]")
    return f"[[ignore]] {int(found[1]) + 1}: {path[found.end() :]}".rstrip(": ")


def _value(data: Any, path: str) -> str:
    """The value that the complaint is about, where it is a short one."""
    for key in re.findall(r"\w+", path):
        try:
            data = data[int(key)] if isinstance(data, list) else data[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return ""
    return f": {shown(repr(data), 60)}" if isinstance(data, str | int | float) else ""


def schema() -> dict[str, Any]:
    """The JSON Schema of doctor.toml, whose keys may also be written with dashes."""
    made = msgspec.json.schema(Tables)
    for table in made["$defs"].values():
        table.get("properties", {}).pop("type", None)
        if "required" in table:
            table["required"] = [name for name in table["required"] if name != "type"]
        for name, said in list(table.get("properties", {}).items()):
            if "_" in name:
                table["properties"][name.replace("_", "-")] = said
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "doctor.toml, or tool.doctor in pyproject.toml",
        **made,
    }
