"""A rule on methods that Python 3 and torch have no more."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call

OF_DICTIONARIES = {"iteritems": "items()", "itervalues": "values()", "iterkeys": "keys()",
                   "has_key": "`in`"}  # fmt: skip
ARGUMENTS = {"has_key": 1}
EXPECTED = {"version_info", "PY2", "PY3", "python_version", "AttributeError"}
"""One of them occurs in files that run in both versions."""


def gone(reading: Training) -> Iterator[Match]:
    script = reading.script
    if reading.is_test or reading.imports_from("six", "future") or script.identifiers & EXPECTED:
        return
    own = {each.name for each in script.functions}
    tables = {"iteritems"} if reading.imports_from("pandas") else set()
    for call in reading.named(*OF_DICTIONARIES.keys() - own - tables):
        fits = len(call.args) == ARGUMENTS.get(call.method, 0) and not call.unpacked
        if fits and (call.receiver or call.receiver_call >= 0 or call.base is not None):
            message = f"Python 3 has no {call.method}(): use {OF_DICTIONARIES[call.method]}"
            yield Match(call.name_span, message)
    for call in reading.named("next"):
        if not call.args and call.receiver and _is_iterator(reading, call):
            message = f"an iterator has no next(): use next({call.receiver})"
            yield Match(call.name_span, message)


def _is_iterator(reading: Training, call: Call) -> bool:
    """Every assignment of the name is iter(...)."""
    made = [each for each in reading.assignments if each.target == call.receiver]
    calls = [reading.call_of(each.value) for each in made]
    return bool(calls) and all(each is not None and each.name == "iter" for each in calls)


RULES = (
    Rule(
        code="SCR441",
        slug="method-of-python-2",
        title="Methods exist in Python 3",
        severity="fail",
        find=gone,
        why="These methods went with Python 2: the call raises an AttributeError.",
        fires=(
            "iteritems(), has_key() and the like of a dictionary",
            "it.next(), where it = iter(x)",
        ),
        fix="Use what the message names.",
        sources=("python-3-changes",),
        needs=("iteritems", "itervalues", "iterkeys", "has_key", "next"),
    ),
)
