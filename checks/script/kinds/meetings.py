"""Two kinds of one dimension in one sum, one comparison or one list; numbers that no kind has."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from doctor.checks.script.kinds.arithmetic import numeric
from doctor.checks.script.kinds.clash import Clash, clash
from doctor.checks.script.kinds.conversions import JOINS, remedy
from doctor.checks.script.kinds.dimensions import DIMENSIONS, KIND, Kind
from doctor.checks.script.kinds.flow import Flow
from doctor.checks.script.kinds.known import CALL, DERIVED, NAME, Kinds, Known, Place, before
from doctor.checks.script.kinds.needs import active
from doctor.checks.script.naming import words
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.facts.script import Assignment, Call, Comparison, Span, Value

SUMMED = {each.name for each in DIMENSIONS if each.summed}
COMPARED = {each.name for each in DIMENSIONS if each.compared}
BYTES = (255.0, 256.0)
JOINED = {"box", "layout", "range", "color", "angle"}
PER_SAMPLE = re.compile(r"\.size\(0\)$|\.shape\[0\]$|^(?:\w+\.)*batch_size$")
ACCURACY = {"acc", "accuracy"}


def found(flow: Flow) -> Iterator[Clash]:
    possible = flow.reading.cached(active)
    for comparison in flow.reading.script.comparisons if possible & COMPARED else ():
        yield from _compared(flow, comparison)
    for each in flow.reading.script.assignments:
        yield from _changed(flow, each) if each.augmented else _assigned(flow, each)
    for number in flow.reading.methods(*JOINS):
        yield from _joined(flow, flow.reading.calls[number])


def _compared(flow: Flow, each: Comparison) -> Iterator[Clash]:
    place = Place(each.scope, each.position, ())
    for one, other in ((each.left, each.right), (each.right, each.left)):
        if other.kind == "literal" and isinstance(other.literal, int | float):
            if not isinstance(other.literal, bool):
                yield from _number(flow, one, float(other.literal), place, each.span)
            return
    left = flow.of(each.left, place) if each.right.kind != "literal" else {}
    right = flow.of(each.right, place) if left else {}
    yield from _different(left, right, COMPARED, each.span, "compared")


def _number(flow: Flow, value: Value, number: float, place: Place, span: Span) -> Iterator[Clash]:
    """Numbers that a value of its kind is never, or hardly ever, compared with."""
    if value.kind == "literal" or not 0 < number <= 100:
        return
    kinds = flow.of(value, place)
    share, score = kinds.get("share"), kinds.get("score")
    if share is not None and share.evidence >= DERIVED:
        fraction, percent = (share.kind.name == name for name in ("a fraction", "percent"))
        if fraction and 1.5 < number <= 100:
            yield _of_number(span, share, KIND["percent"], number)
        elif percent and 0.5 <= number < 1 and ACCURACY & set(words(value.name)):
            yield _of_number(span, share, KIND["a fraction"], number)
    if score is None or score.evidence < DERIVED or not 0 < number < 1:
        return
    if score.kind.name == "log-probabilities":
        yield _of_number(span, score, KIND["probabilities"], number)


def _of_number(span: Span, known: Known, wanted: Kind, number: float) -> Clash:
    return clash(span, f"{number:g} is for", wanted, known)


def _different(
    left: Kinds, right: Kinds, dimensions: set[str], span: Span, verb: str
) -> Iterator[Clash]:
    for dimension in left.keys() & right.keys() & dimensions:
        one, other = left[dimension], right[dimension]
        if one.kind is other.kind or CALL not in (one.evidence, other.evidence):
            continue
        if NAME in (one.evidence, other.evidence) and dimension not in SUMMED:
            continue
        first = f"{one.kind.name} ({one.origin})"
        message = f"{first} and {other.kind.name} ({other.origin}) are {verb}"
        fix = remedy(one.kind.name, other.kind.name, units=True)
        yield Clash(dimension, Match(span, message, fix=fix))


def _changed(flow: Flow, each: Assignment) -> Iterator[Clash]:
    """image /= 255."""
    place = before(each)
    if each.operator == "Div" and numeric(flow, each.value, place) in BYTES:
        yield from _scaled_again(flow.of(Value("name", name=each.target), place), each.span)


def _assigned(flow: Flow, each: Assignment) -> Iterator[Clash]:
    place = before(each)
    if each.value.kind not in ("other", "call") or not each.value.names:
        return
    summed = not SUMMED.isdisjoint(flow.reading.cached(active))
    for part in flatten([each.value]):
        if part.kind == "other" and len(part.items) == 2:
            if summed and part.name in ("Add", "Sub") and part.items[0].kind != "literal":
                left = flow.of(part.items[0], place)
                right = flow.of(part.items[1], place) if left else {}
                yield from _different(left, right, SUMMED, each.span, "added")
            elif part.name == "Div":
                yield from _divided(flow, part, each, place)


def _divided(flow: Flow, part: Value, each: Assignment, place: Place) -> Iterator[Clash]:
    number = numeric(flow, part.items[1], place)
    if number in BYTES:
        yield from _scaled_again(flow.of(part.items[0], place), each.span)
    elif number is None and part.items[1].kind in ("call", "item", "name"):
        if not PER_SAMPLE.search(render(flow.reading, part.items[1])):
            return
        known = flow.of(part.items[0], place).get("reduction")
        if known is not None and known.kind.name == "a mean" and _backward(flow, each):
            yield clash(
                each.span, "what is divided by the size of the batch is", KIND["a sum"], known
            )


def _backward(flow: Flow, each: Assignment) -> bool:
    key = flow.reading.key(each.target, each.scope)
    calls = [flow.reading.calls[n] for n in flow.reading.backwards]
    return any(
        call.receiver and flow.reading.key(call.receiver, call.scope) == key for call in calls
    )


def _joined(flow: Flow, call: Call) -> Iterator[Clash]:
    value = call.args[0] if call.args else None
    if value is None or value.kind != "list":
        return
    kinds = [flow.of_argument(each, call) for each in value.items[:6]]
    for one, other in itertools.pairwise(kinds):
        yield from _different(one, other, JOINED, call.span, "joined")


def _scaled_again(kinds: Kinds, span: Span) -> Iterator[Clash]:
    known = kinds.get("range")
    if known is not None and known.kind.name != "0 to 255" and known.evidence == CALL:
        yield clash(span, "what is divided by 255 is", KIND["0 to 255"], known)
