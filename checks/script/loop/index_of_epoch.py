"""A rate that is computed of the batch's number within its epoch, over the length of the run."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.naming import words
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

RATES = {"lr", "rate", "lrs"}


def starts_over(reading: Training) -> Iterator[Match]:
    """lr = rate(i, epochs * len(loader)), with the i of enumerate(loader): anew in each epoch."""
    if not any(_is_group(each) for each in reading.assignments):
        return
    for each in reading.assignments:
        named = RATES & set(words(each.target)) or _is_group(each)
        if not named or len(each.loops) < 2 or each.augmented:
            continue
        index, epochs = _index(reading, each), _epochs(reading, each)
        pairs = [*_given(reading, each.value), *_divided(reading, each.value)] if index else []
        for one, whole in pairs if epochs else ():
            factors = {v.name for v in one.items} if one.name == "Mult" else {one.name}
            if index in factors and _spans(reading, whole, each, epochs):
                message = f"{index} begins anew in each epoch, and the schedule is for all of them"
                yield Match(each.span, message, fix="Count the steps of all epochs, and pass that.")
                return


def _is_group(each: Assignment) -> bool:
    """group["lr"] = ... of an optimizer."""
    return each.target.endswith("[lr]")


def _index(reading: Training, each: Assignment) -> str:
    """i of `for i, batch in enumerate(loader)`, which nothing changes."""
    loops = [reading.loops[n] for n in each.loops]
    counted = [
        loop.targets[0] for loop in loops[1:]
        if loop.iterable is not None and loop.iterable.kind == "call" and loop.targets
        and reading.calls[loop.iterable.call].name == "enumerate"
        and len(reading.calls[loop.iterable.call].values) == 1
    ]  # fmt: skip
    name = counted[0] if len(counted) == 1 else ""
    return "" if name and reading.assigned_to(name, each.scope) else name


def _epochs(reading: Training, each: Assignment) -> set[str]:
    """epochs of `for epoch in range(start, epochs)`, where its number is not in the value."""
    outer = reading.loops[each.loops[0]]
    call = reading.call_of(outer.iterable)
    if call is None or call.name != "range" or set(outer.targets) & set(each.value.all_names):
        return set()
    stop = call.args[1] if len(call.args) > 1 else call.first
    return {n for n in stop.all_names if "epoch" in n.casefold()} if stop is not None else set()


def _given(reading: Training, value: Value) -> Iterator[tuple[Value, Value]]:
    """i and total of rate(i, total)."""
    call: Call | None = reading.call_of(value)
    values = call.args if call is not None else ()
    for one in values:
        yield from ((one, other) for other in values if other is not one)


def _divided(reading: Training, value: Value) -> Iterator[tuple[Value, Value]]:
    """i and total of i / total, and of pi * i / total, also as the argument of a cosine."""
    inside = [v for call in reading.inside(value) for v in call.args]
    for part in flatten([value, *inside]):
        if part.name == "Div" and len(part.items) == 2:
            yield part.items[0], part.items[1]


def _spans(reading: Training, whole: Value, at: Assignment, epochs: set[str]) -> bool:
    """A product of the epochs and something else."""
    found = evaluate.options_at(reading, whole, at.scope, at.position, at.arms)
    return any(
        each.kind == "other" and each.name == "Mult" and epochs & set(each.all_names)
        for each in found
    )
