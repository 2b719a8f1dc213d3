"""Facts files of earlier schema versions, rewritten to the current one."""

from __future__ import annotations

import builtins
from typing import Any

import msgspec

from doctor.checkpoint.flat_form import from_flat
from doctor.facts import observations

MOVED_TO_OPTIONS = {
    "smoke": "smoke",
    "quick": "quick",
    "budget": "budget",
    "left_out": "omitted",
}
"""Fields of the job in version 1 -> fields of the run options in version 2."""


REMOVED: dict[str, tuple[str, ...]] = {
    "Gpu": ("fabric_error",),
    "Host": ("gpus_on_bus",),
    "OwnModel": ("computed_once",),
    "Settings": ("cudnn_benchmark", "tf32_conv"),
    "Torch": ("tf32_api",),
}
"""Record -> fields that it had in earlier releases, and that nothing read."""


class _Header(msgspec.Struct):
    schema_version: Any = None


def to_current(data: bytes) -> bytes:
    """The file in the current version; unchanged where it already is, or is not a facts file.

    Raises msgspec.DecodeError, UnicodeDecodeError or RecursionError where it is not JSON.
    """
    version = msgspec.json.decode(data, type=_Header).schema_version
    if version not in (1, 2):
        return data
    raw = msgspec.json.decode(data)
    if version == 1 and isinstance(raw.get("job"), dict):
        _split_job(raw)
    if version == 1 and "checkpoint" in raw:
        raw["checkpoint"] = from_flat(raw["checkpoint"])
    if (raised := raised_in(raw)) is not None:
        raised.update(from_texts(raised))
    return msgspec.json.encode(raw | {"schema_version": 3})


def readable(data: bytes) -> bytes:
    """The file without fields that no record has any more, and with an `Unread` for each
    observation that this version cannot read."""
    raw = _without_removed(msgspec.json.decode(data))
    if (raised := raised_in(raw)) is not None:
        raised["observations"] = observations.readable(raised.get("observations"))
    return msgspec.json.encode(raw)


def _without_removed(raw: Any) -> Any:
    if isinstance(raw, list):
        return [_without_removed(each) for each in raw]
    if not isinstance(raw, dict):
        return raw
    removed = REMOVED.get(str(raw.get("type")), ())
    return {key: _without_removed(each) for key, each in raw.items() if key not in removed}


def raised_in(raw: object) -> dict[str, object] | None:
    """The error that ended the user's training, in a facts file as it was decoded."""
    for section in ("own", "raised"):
        raw = raw.get(section) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else None


def from_texts(raised: dict[str, object]) -> dict[str, object]:
    """Fields of an error before version 3, whose observations were texts by their kind. What was
    a sentence is kept as an `Unread`."""
    observed = raised.pop("observed", None)
    observed = {str(k): str(v) for k, v in observed.items()} if isinstance(observed, dict) else {}
    error = str(raised.pop("error", ""))
    parents = getattr(getattr(builtins, error, None), "__mro__", ())[1:-1]
    function = observed.get("argument of", "")
    records: list[dict[str, object]] = [
        {"type": "NoneValue", "name": name, "function": function}
        for name in _names(observed, "none")
    ]
    for kind, owner, name, members in (
        ("name", "", "undefined", ""),
        ("attribute", "owner", "lacks", "members"),
        ("key", "container", "", "keys"),
    ):
        if name in observed or members in observed:
            record = {"type": "Missing", "kind": kind, "owner": observed.get(owner, "")}
            there = {"members": _names(observed, members), "similar": _names(observed, "similar")}
            records.append({**record, "name": observed.get(name, ""), **there})
    if "accepts" in observed:
        fields = {key: _names(observed, key) for key in ("accepts", "needs", "passed")}
        records.append({"type": "Signature", **fields})
    others = [key for key in observed if key not in TRANSLATED]
    reason = "a text of an earlier version"
    records += [{"type": "Unread", "kind": key, "reason": reason} for key in others]
    return {
        "errors": [error, *(each.__name__ for each in parents)],
        "caller": observed.get("through", ""),
        "observations": records,
    }


TRANSLATED = (
    "none",
    "argument of",
    "undefined",
    "owner",
    "lacks",
    "members",
    "container",
    "keys",
    "similar",
    "accepts",
    "needs",
    "passed",
    "keyword",
    "through",
)
"""Kinds of texts that become records, or fields of them."""


def _names(observed: dict[str, str], key: str) -> list[str]:
    return [each for each in observed.get(key, "").split(", ") if each not in ("", "...")]


def _split_job(raw: dict[str, Any]) -> None:
    """In version 1 the job also held the run options and what was expected of the machine."""
    job = raw["job"]
    options = {new: job.pop(old) for old, new in MOVED_TO_OPTIONS.items() if old in job}
    expect = job.pop("expect", None)
    raw["options"] = {"type": "RunOptions", **options}
    if expect is not None:
        raw["expect"] = expect
