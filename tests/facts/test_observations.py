"""What was observed of an error: records that are read one by one."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import recorded

from doctor._util.records import Ended
from doctor.facts import facts as facts_file
from doctor.facts import observations as seen
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Raised

GOOD = {"type": "NoneValue", "name": "x", "function": "forward"}
UNREAD = {
    "a kind of a newer doctor": {"type": "FromTheFuture", "name": "x"},
    "a field of another type": {"type": "NoneValue", "name": 3},
    "a field of a newer doctor": {"type": "NoneValue", "name": "x", "since": 4},
    "a field that is absent": {"type": "IndexRange", "least": 0},
    "no kind": {"name": "x"},
    "no record": 5,
}


@pytest.mark.parametrize("case", UNREAD)
def test_what_cannot_be_read_is_kept_as_unread_and_takes_nothing_along(case: str) -> None:
    records = msgspec.convert(
        seen.readable([GOOD, UNREAD[case], GOOD]), tuple[seen.AnyObservation, ...]
    )
    first, unread, last = records
    assert first == last == seen.NoneValue(name="x", function="forward")
    assert isinstance(unread, seen.Unread)
    assert unread.reason


def test_what_is_no_list_is_unread() -> None:
    assert [each["type"] for each in seen.readable(None)] == ["Unread"]


@pytest.mark.parametrize("kind", typing.get_args(seen.AnyObservation))
def test_a_record_that_was_read_is_written_as_it_was(kind: Any) -> None:
    fields = typing.get_type_hints(kind)
    values = {str: "x", int: 3, bool: True, float: 0.5}
    record: dict[str, Any] = {"type": kind.__name__}
    required = {f.name for f in msgspec.structs.fields(kind) if f.required}
    for name in required:
        hint = fields[name]
        literal = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
        plain = {seen.Line: {"place": "a.py, line 1", "code": ""}}
        known = {**values, **plain}
        record[name] = (
            literal[0] if literal else known.get(hint, None if hint == int | None else [])
        )
    (read,) = seen.readable([record])
    assert read == record


def facts_with(raised: Raised) -> bytes:
    ended = Ended(how="error", detail="TypeError: m")
    own = OwnModel(description="train.py:make", built=ended, raised=raised)
    return facts_file.encode(recorded.cpu_only().with_(own=own))


RAISED = Raised(
    errors=("TypeError", "Exception", "BaseException"),
    message="m",
    observations=(seen.NoneValue(name="x", function="forward"),),
)


def test_a_facts_file_of_a_newer_doctor_is_read_but_for_what_is_new() -> None:
    raw = msgspec.json.decode(facts_with(RAISED))
    raw["own"]["raised"]["observations"].append({"type": "FromTheFuture"})
    read = facts_file.decode(msgspec.json.encode(raw)).own
    assert isinstance(read, OwnModel)
    assert read.raised
    assert read.raised.observations[:-1] == RAISED.observations
    assert read.raised.all(seen.Unread)[0].kind == "FromTheFuture"


def test_the_checked_in_facts_are_of_this_version() -> None:
    paths = Path(__file__).parents[1].joinpath("machines").glob("*.json")
    versions = {path.name: msgspec.json.decode(path.read_bytes()) for path in paths}
    assert all(each["schema_version"] == 3 for each in versions.values() if "host" in each)
