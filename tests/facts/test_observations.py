"""What was observed of an error: records that are read one by one, also of earlier versions."""

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


OLD = {
    "none": "x, y",
    "argument of": "forward",
    "owner": "Net",
    "lacks": "dense_2",
    "members": "dense1, dense2, ...",
    "similar": "dense2",
    "accepts": "x, labels",
    "needs": "x",
    "keyword": "inputs",
    "grown at": "train.py, line 9 (`depth - squat`)",
    "through": "Linear.forward",
}


def test_texts_of_an_earlier_version_become_records_or_are_unread() -> None:
    raw = msgspec.json.decode(facts_with(RAISED))
    old = {"type": "Raised", "error": "KeyError", "message": "m", "observed": OLD}
    raw["own"]["raised"], raw["schema_version"] = old, 2
    read = facts_file.decode(msgspec.json.encode(raw)).own
    assert isinstance(read, OwnModel)
    raised = read.raised
    assert raised
    assert raised.errors == ("KeyError", "LookupError", "Exception", "BaseException")
    assert raised.caller == "Linear.forward"
    assert [each.name for each in raised.all(seen.NoneValue)] == ["x", "y"]
    (missing,) = raised.all(seen.Missing)
    assert (missing.kind, missing.owner, missing.members) == (
        "attribute",
        "Net",
        ("dense1", "dense2"),
    )
    (signature,) = raised.all(seen.Signature)
    assert (signature.accepts, signature.needs) == (("x", "labels"), ("x",))
    assert [each.kind for each in raised.all(seen.Unread)] == ["grown at"]


@pytest.mark.parametrize("raised", [5, [], {"observed": 3}, {"observed": {"none": 4}}, None])
def test_an_old_error_that_is_damaged_is_one_clear_error_or_read(raised: Any) -> None:
    raw = msgspec.json.decode(facts_with(RAISED))
    raw["own"]["raised"], raw["schema_version"] = raised, 2
    try:
        facts_file.decode(msgspec.json.encode(raw))
    except ValueError as error:
        assert str(error).startswith("not a facts file")


def test_the_checked_in_facts_are_of_this_version() -> None:
    paths = Path(__file__).parents[1].joinpath("machines").glob("*.json")
    versions = {path.name: msgspec.json.decode(path.read_bytes()) for path in paths}
    assert all(each["schema_version"] == 3 for each in versions.values() if "host" in each)
