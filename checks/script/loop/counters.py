"""The number of a batch or an item that is taken for something else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Loop, Span, Value

OF_TENSORS = {
    "to", "cuda", "cpu", "size", "float", "long", "view", "unsqueeze", "squeeze", "permute",
    "numpy", "detach", "dim", "item", "reshape", "requires_grad_",
}  # fmt: skip
"""Methods of tensors that no int has."""
OWN_NAMES = {"ListComp", "SetComp", "DictComp", "GeneratorExp", "Lambda"}
"""Expressions whose names are their own."""


def index_as_batch(reading: Training) -> Iterator[Match]:
    """for x, y in enumerate(loader): x.to(device)."""
    for number, loop in enumerate(reading.loops if not reading.is_test else ()):
        name = loop.targets[0] if len(loop.targets) > 1 and _counted(reading, loop) else ""
        if not name or not _is_enumerated(reading, loop):
            continue
        for n in reading.by_loop.get(number, ()):
            call = reading.calls[n]
            if call.receiver != name or call.method not in OF_TENSORS or call.scope != loop.scope:
                continue
            bound = any(reading.script.contexts[c].target == name for c in call.contexts)
            if bound or n in reading.cached(_calls_with_own_names):
                continue
            tried = any(reading.branches[b].kind == "try" for b, _ in call.arms)
            if not tried and not _is_rebound(reading, name, number, call):
                yield Match(
                    call.span,
                    f"{name} is the number that enumerate() counts: int has no {call.method}()",
                    fix="for i, (x, y) in enumerate(loader), or leave out enumerate().",
                )
            break


def _calls_with_own_names(reading: Training) -> frozenset[int]:
    """[x.to(device) for x in batch] and lambda x: x.to(device)."""
    values = (value for value, _, _ in reading.expressions)
    return frozenset(n for part in flatten(values) if part.name in OWN_NAMES for n in part.calls)


def _is_enumerated(reading: Training, loop: Loop) -> bool:
    made = reading.call_of(loop.iterable) if loop.iterable is not None else None
    return made is not None and made.name == "enumerate"


def _counted(reading: Training, loop: Loop) -> str:
    """i of `for i in range(n)` and of `for i, x in enumerate(xs)`, "" of other loops."""
    made = reading.call_of(loop.iterable) if loop.iterable is not None else None
    if loop.kind != "for" or made is None or made.name not in ("range", "enumerate"):
        return ""
    return loop.targets[0] if loop.targets else ""


def _is_rebound(reading: Training, name: str, loop: int, call: Call) -> bool:
    """x = data[x] before the call, or an inner loop over x."""
    inner = any(name in reading.loops[n].targets for n in call.loops if n != loop)
    start = (call.span.line, call.span.column)
    return inner or any(
        loop in a.loops and (a.span.end_line, a.span.end_column) <= start
        for a in reading.assigned_to(name, call.scope)
    )


Place = Assignment | Call


def counter_taken(reading: Training) -> Iterator[Match]:
    """for i, x in enumerate(xs): for i in range(n): ...; and i behind the inner loop."""
    counters = [(loop.scope, _counted(reading, loop)) for loop in reading.loops]
    twice = len({each for each in counters if each[1]}) < sum(bool(each[1]) for each in counters)
    inside = reading.cached(_places) if twice else {}
    for number, places in inside.items():
        name = _counted(reading, reading.loops[number])
        around = places[0].loops[: places[0].loops.index(number)]
        outer = next((n for n in reversed(around)
                      if name and _counted(reading, reading.loops[n]) == name), -1)  # fmt: skip
        if outer < 0 or reading.loops[outer].scope != reading.loops[number].scope:
            continue
        before, behind = _reads(reading, name, inside[outer], places, number)
        if behind is not None and before:
            yield Match(
                behind,
                f"{name} is the last number of the inner loop here: it took the name of the outer "
                "loop's",
                "warn",
                fix="Give the inner loop a name of its own.",
            )


def _places(reading: Training) -> dict[int, list[Place]]:
    """What is assigned and called within each loop, in the order of the file."""
    table: dict[int, list[Place]] = {}
    here: list[Place] = [*reading.stores, *reading.calls]
    for each in sorted((p for p in here if p.loops), key=lambda p: p.span.order):
        for loop in each.loops:
            table.setdefault(loop, []).append(each)
    return table


def _reads(
    reading: Training, name: str, outside: list[Place], places: list[Place], inner: int
) -> tuple[bool, Span | None]:
    """Whether the outer loop reads its number before the inner one, and where it does behind it,
    if nothing binds the name anew."""
    reading.step(len(outside))
    start, end = places[0].span.order, places[-1].span.order
    around = {branch for branch, _ in min((p.arms for p in places), key=len)}
    before, behind = False, None
    for each in outside:
        if inner in each.loops:
            continue
        after = each.span.order > end
        if isinstance(each, Assignment) and each.target == name and after:
            break
        if any(name in reading.loops[n].targets for n in each.loops[each.loops.index(
                places[0].loops[places[0].loops.index(inner) - 1]) + 1:]):  # fmt: skip
            break
        tests = [t for b, _ in each.arms if b not in around
                 and (t := reading.test_of(b)) is not None]  # fmt: skip
        read = [v for v in (*_values(each), *tests) if name in v.all_names]
        if all(_is_own(v) for v in read):
            continue
        before |= each.span.order < start
        if after and not any(_is_number_of_items(reading, name, v) for v in read):
            behind = each.span
            break
    return before, behind


def _is_own(value: Value) -> bool:
    """The names within a comprehension or a lambda may be its own."""
    return any(part.name in OWN_NAMES for part in flatten([value]))


def _is_number_of_items(reading: Training, name: str, value: Value) -> bool:
    """total / (i + 1) behind the loop that counts: what is meant is the inner one's number."""
    text = re.escape(name)
    return re.search(rf"/\(*{text}\b|\b{text}\+1\b", render(reading, value)) is not None


def _values(place: Place) -> tuple[Value, ...]:
    return (place.value,) if isinstance(place, Assignment) else (*place.values, *place.unpacked)
