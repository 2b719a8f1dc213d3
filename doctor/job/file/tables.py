"""The tables of a job file: their types, decoding, and their JSON Schema."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import msgspec

from doctor._util.units import COUNT, parse_count, shown
from doctor.job.expect import Expect, Text, specifiers
from doctor.job.file.lint import LintTable
from doctor.job.file.messages import members, message, readable
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

Severity = Literal["warn", "fail"]

NOT_IN_FILE = ("working_dir", "budget", "omitted", "only", "skip", "loader")
"""Fields of Job and RunOptions that a job file cannot set."""
FLAGS = (
    "annotate", "budget", "color", "config", "context", "facts", "fail_on", "format", "inject",
    "no_redact", "only", "output", "quiet", "save_facts", "shared", "skip", "verbose",
)  # fmt: skip
"""Flags that no key stands for."""
COUNTS = ("params", "trainable")
"""Keys that may be written as text: 8B."""
LISTS = ("attention", "expect_no_grad")
"""Keys whose variable holds a list, separated by commas."""
WITHOUT_VARIABLE = ("arguments",)
"""Keys that no variable stands for: an argument may contain a comma."""


class Ignore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One [[ignore]]: findings that are known and accepted."""

    reason: Text
    code: Text | None = None
    """A code, a slug or a family."""
    cause: Text | None = None
    """In place of a code: the id of a cause of errors, for the findings that it heads."""
    until: datetime.date | None = None
    """The last day on which it applies."""
    host: Text | None = None
    """A pattern on the host's name."""


def _job_fields() -> list[tuple[str, object, object]]:
    fields = [*msgspec.structs.fields(Job), *msgspec.structs.fields(RunOptions)]
    return [
        (field.name, field.type | str | None if field.name in COUNTS else field.type | None, None)
        for field in fields
        if field.name not in NOT_IN_FILE
    ]


JobTable = msgspec.defstruct(
    "JobTable", _job_fields(), frozen=True, kw_only=True, forbid_unknown_fields=True
)
"""Table [job]: fields of Job and RunOptions, all of them optional."""
JOB_KEYS = tuple(field.name for field in msgspec.structs.fields(JobTable))
KINDS = {f".job.{field.name}": field.type for field in msgspec.structs.fields(JobTable)}
KINDS[""] = Severity  # the only other enumeration


class Tables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    job: JobTable | None = None  # type: ignore[valid-type]
    expect: Expect | None = None
    ignore: tuple[Ignore, ...] = ()
    severity: dict[Text, Severity] = {}
    lint: LintTable | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """The contents of a file; `job` holds the keys that it sets."""

    job: dict[str, Any]
    expect: Expect | None
    ignores: tuple[Ignore, ...]
    severity: dict[str, Severity]
    lint: LintTable


def decode(tables: Mapping[str, object]) -> Decoded:
    """The file's tables. Raises ValueError with one line that begins with the key."""
    data = _normalized(tables, Tables, "")
    if "expect" in data and isinstance(data["expect"], dict):
        data["expect"] = {"type": "Expect", **_without_tag(data["expect"])}
    decoded: Tables = _convert(data, Tables, strict=True)
    _check_versions(decoded.expect)
    job = decode_job(data.get("job", {}))
    return Decoded(
        job, decoded.expect, decoded.ignore, dict(decoded.severity), decoded.lint or LintTable()
    )


def decode_job(job: Mapping[str, object], *, text: bool = False) -> dict[str, Any]:
    """The keys of [job] that are set; with `text` the values are those of variables.

    Raises ValueError with one line that begins with the key.
    """
    data: dict[str, Any] = dict(job)
    if text:
        data = {key: _split(value) if key in LISTS else value for key, value in data.items()}
    table = _convert({"job": data}, Tables, strict=not text).job
    values = {key: getattr(table, key) for key in JOB_KEYS if getattr(table, key) is not None}
    for key in COUNTS:
        if isinstance(values.get(key), str):
            try:
                values[key] = parse_count(values[key])
            except ValueError as error:
                raise ValueError(f"job.{key}: {error}") from None
    return values


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _convert(data: dict[str, object], kind: object, *, strict: bool) -> Any:
    try:
        return msgspec.convert(data, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise ValueError(message(str(error), data, KINDS)) from None


def _check_versions(expect: Expect | None) -> None:
    """Raise ValueError for a version that the pattern accepts and packaging does not."""
    for key in ("driver", "torch", "cuda"):
        version = getattr(expect, key, None)
        try:
            specifiers(version or "1")
        except ValueError:
            raise ValueError(
                f"expect.{key}: {version!r} is not a version; write one such as >=2.9"
            ) from None


def _without_tag(table: dict[str, object]) -> dict[str, Any]:
    """The table. Raises ValueError for the key of msgspec's tag, which a file cannot set."""
    if "type" in table:
        raise ValueError(_unknown_key("type", Expect, "expect"))
    return table


def _normalized(table: object, kind: Any, at: str) -> Any:
    """The table with _ for - in its keys. Raises ValueError for a key that is unknown."""
    if not isinstance(table, dict):
        return table
    kinds = {field.name: field.type for field in msgspec.structs.fields(kind)}
    normalized: dict[str, object] = {}
    for written, value in table.items():
        key = written.replace("-", "_")
        if key not in kinds:
            raise ValueError(_unknown_key(written, kind, at))
        if key in normalized:
            raise ValueError(f"{_path(at, key)}: set twice, with - and with _")
        normalized[key] = _normalized_value(value, kinds[key], _path(at, key))
    return normalized


def _normalized_value(value: object, kind: object, at: str) -> object:
    """The same for a nested table, or a list of tables; a whole float (8e9) as an integer."""
    if type(value) is float and value.is_integer() and any(map(_is_integer, members(kind))):
        return int(value)
    for member in members(kind):
        if isinstance(member, type) and issubclass(member, msgspec.Struct):
            return _normalized(value, member, at)
        if get_origin(member) is tuple and get_args(member)[0] is Ignore and type(value) is list:
            return [_normalized(one, Ignore, f"{at}[{n}]") for n, one in enumerate(value)]
    return value


def _is_integer(kind: object) -> bool:
    return getattr(kind, "__origin__", kind) is int  # without msgspec's limits


def _path(at: str, key: str) -> str:
    return f"{at}.{key}".lstrip(".")


def _unknown_key(key: str, kind: Any, at: str) -> str:
    if key.replace("-", "_") in FLAGS:
        flag = key.replace("_", "-")
        return f"{readable(_path(at, key))}: cannot be set in a job file; pass --{flag}"
    names = [field.name for field in msgspec.structs.fields(kind)]
    nearest = difflib.get_close_matches(key.replace("-", "_").casefold(), names, 1, 0.6)
    hint = f"did you mean {nearest[0]}?" if nearest else f"valid keys: {', '.join(names)}"
    return f"{readable(_path(at, shown(key)))}: unknown key; {hint}"


def schema() -> dict[str, object]:
    """The JSON Schema of doctor.toml, whose keys may also be written with dashes."""
    schema = msgspec.json.schema(Tables)
    for key in COUNTS:
        for member in schema["$defs"]["JobTable"]["properties"][key]["anyOf"]:
            if member["type"] == "string":
                member["pattern"] = COUNT
    for table in schema["$defs"].values():
        table.get("properties", {}).pop("type", None)
        if "required" in table:
            table["required"] = [name for name in table["required"] if name != "type"]
        for name, definition in list(table.get("properties", {}).items()):
            if "_" in name:
                table["properties"][name.replace("_", "-")] = definition
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "doctor.toml, or tool.doctor in pyproject.toml",
        **schema,
    }
