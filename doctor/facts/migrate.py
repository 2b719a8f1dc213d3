"""Facts files of earlier schema versions, rewritten to the current one."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor.checkpoint.flat_form import from_flat

MOVED_TO_OPTIONS = {
    "smoke": "smoke",
    "quick": "quick",
    "budget": "budget",
    "left_out": "omitted",
}
"""Fields of the job in version 1 -> fields of the run options in version 2."""


class _Header(msgspec.Struct):
    schema_version: Any = None


def to_current(data: bytes) -> bytes:
    """The file in the current version; unchanged where it already is, or is not a facts file.

    Raises msgspec.DecodeError, UnicodeDecodeError or RecursionError where it is not JSON.
    """
    if msgspec.json.decode(data, type=_Header).schema_version != 1:
        return data
    raw = msgspec.json.decode(data)
    if isinstance(raw.get("job"), dict):
        _split_job(raw)
    if "checkpoint" in raw:
        raw["checkpoint"] = from_flat(raw["checkpoint"])
    return msgspec.json.encode(raw | {"schema_version": 2})


def _split_job(raw: dict[str, Any]) -> None:
    """In version 1 the job also held the run options and what was expected of the machine."""
    job = raw["job"]
    options = {new: job.pop(old) for old, new in MOVED_TO_OPTIONS.items() if old in job}
    expect = job.pop("expect", None)
    raw["options"] = {"type": "RunOptions", **options}
    if expect is not None:
        raw["expect"] = expect
