"""Columns that a function fills one by one: out["labels"].append(labels), row["labels"] = ids."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value

LABELS, INPUTS = "[labels]", "[input_ids]"
Filled = tuple[Value, Span, Call]
"""What a column gets, where, and a call at that place."""


def built(reading: Training, scope: int) -> Iterator[tuple[Value, Value, Span, Call]]:
    """Labels and the inputs beside them that a function puts into one dictionary."""
    filled = list(_filled(reading, scope))
    for name, (labels, span, place) in filled:
        owner = name.removesuffix(LABELS)
        beside = [each for other, (each, *_) in filled if other == owner + INPUTS]
        if name.endswith(LABELS) and len(beside) == 1:
            yield labels, beside[0], span, place
        elif name.endswith(LABELS) and not beside:
            yield labels, Value("name", name=owner + INPUTS), span, place


def _filled(reading: Training, scope: int) -> Iterator[tuple[str, Filled]]:
    for call in reading.calls_in(scope):
        if call.method == "append" and len(call.args) == 1 and call.receiver.endswith("]"):
            yield call.receiver, (call.args[0], call.span, call)
    for each in reading.stores:
        if each.scope == scope and each.target.endswith((LABELS, INPUTS)):
            number = min(each.position, len(reading.calls))
            place = Call(name="", span=each.span, scope=scope)
            known = reading.calls[number] if number < len(reading.calls) else place
            at = known if known.scope == scope else place
            yield each.target, (each.value, each.span, at)
