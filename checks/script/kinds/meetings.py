"""Two kinds of one dimension in one sum, one comparison or one list; numbers that no kind has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.kinds.arithmetic import numeric
from doctor.checks.script.kinds.clash import Clash, clash
from doctor.checks.script.kinds.conversions import JOINS, remedy
from doctor.checks.script.kinds.dimensions import DIMENSIONS, KIND, Kind
from doctor.checks.script.kinds.flow import Flow
from doctor.checks.script.kinds.known import CALL, DERIVED, NAME, Kinds, Known, Place, before
from doctor.checks.script.kinds.made import is_library, receiver
from doctor.checks.script.kinds.sources import COLOURS
from doctor.checks.script.naming import words
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.facts.script import Assignment, Call, Comparison, Span, Value

SUMMED = {each.name for each in DIMENSIONS if each.summed}
COMPARED = {each.name for each in DIMENSIONS if each.compared}
JOINED = {"box", "layout", "range", "colour", "angle"}
PER_SAMPLE = re.compile(r"\.size\(0\)$|\.shape\[0\]$|^(?:\w+\.)*batch_size$")
MINUS = re.compile(r"-.*inf|^-1e\+?\d|finfo.*min|^-\d{4,}")
SCHEDULES = (
    "get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup", "get_scheduler",
    "get_polynomial_decay_schedule_with_warmup",
    "get_cosine_with_hard_restarts_schedule_with_warmup",
)  # fmt: skip
NEAREST = re.compile("nearest|closest|neighbou?rs?|knn|nn")
ACCURACY = {"acc", "accuracy"}


def found(flow: Flow) -> Iterator[Clash]:
    for comparison in flow.reading.script.comparisons:
        yield from _compared(flow, comparison)
    for each in flow.reading.script.assignments:
        yield from _assigned(flow, each)
    for number in flow.reading.methods(*JOINS):
        yield from _joined(flow, flow.reading.calls[number])
    for number in flow.reading.methods("argmax", "max", "topk"):
        yield from _largest_distance(flow, flow.reading.calls[number])
    for number in flow.reading.methods(*SCHEDULES):
        yield from _scheduled(flow, flow.reading.calls[number])
    for number in flow.reading.methods("resize"):
        yield from _resized(flow, flow.reading.calls[number])
    for number in flow.reading.methods("cvtColor"):
        yield from _recoloured(flow, flow.reading.calls[number])
    for number in flow.reading.methods("astype", "byte"):
        yield from _to_bytes(flow, flow.reading.calls[number])
    for number in flow.reading.methods("masked_fill", "masked_fill_"):
        yield from _filled(flow, flow.reading.calls[number])
    for number in flow.reading.backwards:
        yield from _minimized(flow, flow.reading.calls[number])


def _compared(flow: Flow, each: Comparison) -> Iterator[Clash]:
    place = Place(each.scope, each.position, ())
    for one, other in ((each.left, each.right), (each.right, each.left)):
        if other.kind == "literal" and isinstance(other.literal, int | float):
            if not isinstance(other.literal, bool):
                yield from _number(flow, one, float(other.literal), place, each.span)
            return
    left = flow.of(each.left, place)
    right = flow.of(each.right, place) if left else {}
    yield from _different(left, right, COMPARED, each.span, "compared")


def _number(flow: Flow, value: Value, number: float, place: Place, span: Span) -> Iterator[Clash]:
    """Numbers that a value of its kind is never, or hardly ever, compared with."""
    kinds = flow.of(value, place) if value.kind != "literal" else {}
    share, score = kinds.get("share"), kinds.get("score")
    if share is not None and share.evidence >= DERIVED:
        fraction, percent = (share.kind.name == name for name in ("a fraction", "percent"))
        if fraction and 1.5 < number <= 100:
            yield _of_number(span, share, KIND["percent"], number)
        elif percent and 0.5 <= number < 1 and ACCURACY & set(words(value.name)):
            yield _of_number(span, share, KIND["a fraction"], number)
    if score is not None and score.evidence >= DERIVED and 0 < number < 1:
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


def _assigned(flow: Flow, each: Assignment) -> Iterator[Clash]:
    place = before(each)
    if each.augmented:
        number = numeric(flow, each.value, place)
        if each.operator == "Div" and number in (255.0, 256.0):
            yield from _scaled_again(flow.of(Value("name", name=each.target), place), each.span)
        return
    if each.value.kind not in ("other", "call") or not each.value.names:
        return
    for part in flatten([each.value]):
        if part.kind == "other" and len(part.items) == 2:
            if part.name in ("Add", "Sub") and part.items[0].kind != "literal":
                left = flow.of(part.items[0], place)
                right = flow.of(part.items[1], place) if left else {}
                yield from _different(left, right, SUMMED, each.span, "added")
            elif part.name == "Div":
                yield from _divided(flow, part, each, place)


def _divided(flow: Flow, part: Value, each: Assignment, place: Place) -> Iterator[Clash]:
    number = numeric(flow, part.items[1], place)
    if number in (255.0, 256.0):
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


def _scaled_again(kinds: Kinds, span: Span) -> Iterator[Clash]:
    known = kinds.get("range")
    if known is not None and known.kind.name != "0 to 255" and known.evidence == CALL:
        yield clash(span, "what is divided by 255 is", KIND["0 to 255"], known)


def _joined(flow: Flow, call: Call) -> Iterator[Clash]:
    value = call.args[0] if call.args else None
    if value is None or value.kind != "list":
        return
    kinds = [flow.of_argument(each, call) for each in value.items[:6]]
    for one, other in zip(kinds, kinds[1:], strict=False):
        yield from _different(one, other, JOINED, call.span, "joined")


def _largest_distance(flow: Flow, call: Call) -> Iterator[Clash]:
    """The nearest by argmax or topk of distances."""
    if not any(NEAREST.fullmatch(word) for name in call.targets for word in words(name)):
        return
    value = call.args[0] if call.name.startswith("torch.") and call.args else receiver(call)
    if value is None or "largest" in call.keywords or len(call.args) > 2 or call.statement:
        return
    known = flow.of_argument(value, call).get("distance")
    if known is not None and known.evidence == CALL and "distances" in known.kind.name:
        what = f"the nearest by {call.method} is that of the largest of"
        yield clash(call.span, what, KIND["similarities"], known)


def _scheduled(flow: Flow, call: Call) -> Iterator[Clash]:
    """A warmup in epochs of a training in steps; both in epochs may be meant."""
    place = int(call.method == "get_scheduler") + 1
    kinds = [
        flow.of_argument(value, call).get("progress") if value is not None else None
        for key, position in (("num_warmup_steps", place), ("num_training_steps", place + 1))
        for value in [evaluate.argument(flow.reading, call, key, position)]
    ]
    warmup, total = kinds
    if warmup is None or total is None or total.evidence != CALL:
        return
    if warmup.kind.name == "epochs" and total.kind.name == "steps":
        yield clash(call.span, "the warmup of a training in steps is in", KIND["steps"], warmup)


def _resized(flow: Flow, call: Call) -> Iterator[Clash]:
    """image.resize(size) of PIL takes (width, height)."""
    value = receiver(call)
    given = call.args[0] if call.args else call.keywords.get("size")
    if value is None or given is None or is_library(call):
        return
    form = flow.of_argument(value, call).get("form")
    known = flow.of_argument(given, call).get("plane") if form is not None else None
    if known is not None and form is not None and form.kind.name == "PIL image":
        if known.kind.name == "(height, width)" and known.evidence == CALL:
            yield clash(call.span, "resize() of PIL takes", KIND["(width, height)"], known)


def _recoloured(flow: Flow, call: Call) -> Iterator[Clash]:
    """cvtColor() from a colour that the image is not in."""
    code = call.args[1] if len(call.args) > 1 else call.keywords.get("code")
    start = code.name.rpartition("COLOR_")[2].partition("2")[0] if code is not None else ""
    if start not in COLOURS or not call.args:
        return
    known = flow.of_argument(call.args[0], call).get("colour")
    if known is not None and known.kind.name != COLOURS[start] and known.evidence == CALL:
        yield clash(call.span, "the conversion is from", KIND[COLOURS[start]], known)


def _to_bytes(flow: Flow, call: Call) -> Iterator[Clash]:
    """astype(np.uint8) of numbers from 0 to 1."""
    given = call.args[0] if call.args else call.keywords.get("dtype")
    named = str(given.literal or given.name) if given is not None else ""
    value = receiver(call)
    if value is None or not (call.method == "byte" or named.endswith("uint8")):
        return
    known = flow.of_argument(value, call).get("range")
    if known is not None and known.kind.name in ("0 to 1", "-1 to 1") and known.evidence == CALL:
        yield clash(call.span, "uint8 is for", KIND["0 to 255"], known)


def _filled(flow: Flow, call: Call) -> Iterator[Clash]:
    """masked_fill(mask, -inf) of a mask that is True where attention looks."""
    if len(call.args) != 2 or not MINUS.search(render(flow.reading, call.args[1])):
        return
    known = flow.of_argument(call.args[0], call).get("mask")
    scope = {flow.reading.calls[n].method for n in flow.reading.scope_calls(call.scope)}
    if known is None or (known.origin == "tril()" and "softmax" not in scope):
        return
    if known.kind.name == "True for tokens" and known.evidence >= DERIVED:
        yield clash(call.span, "what is filled is", KIND["True for what is ignored"], known)


def _minimized(flow: Flow, call: Call) -> Iterator[Clash]:
    """backward() of a similarity alone: the optimizer takes apart what belongs together."""
    value = receiver(call)
    known = flow.of_argument(value, call).get("distance") if value is not None else None
    if known is not None and known.evidence == CALL and known.kind.name == "similarities":
        yield clash(call.span, "an optimizer minimizes", KIND["distances"], known)
