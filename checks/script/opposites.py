"""Conditions that cannot both hold, though they are of two tests."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.reading import Reading, exclusive
from doctor.facts.script import Call


def apart(reading: Reading, one: Call, other: Call) -> bool:
    """Two arms of one condition, or `mode == "full"` around one call and `!=` around the other."""
    if exclusive(one.arms, other.arms):
        return True
    held = set(_held(reading, other))
    return any(_opposite(text) in held for text in _held(reading, one))


def _held(reading: Reading, call: Call) -> Iterator[str]:
    """The tests that hold where a call is, a conjunction in its parts."""
    for branch, arm in call.arms:
        test = reading.test_of(branch)
        if test is not None and test.text and arm == 0 and " or " not in test.text:
            yield from (part.strip(" ()") for part in test.text.split(" and "))


def _opposite(text: str) -> str:
    for operator, other in (("==", "!="), ("!=", "=="), (" is not ", " is ")):
        if text.count(operator) == 1:
            return text.replace(operator, other)
    return text.removeprefix("not ") if text.startswith("not ") else f"not {text}"
