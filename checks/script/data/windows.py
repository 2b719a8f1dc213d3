"""A rule on windows of a series that overlap and are split at random."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

Key = tuple[object, str]
ROUNDS = 4
"""Assignments through which windows are followed. Our own number."""


def windows_split(reading: Training) -> Iterator[Match]:
    """random_split() or train_test_split() of windows that share most of their values."""
    splits = reading.named("random_split", "train_test_split")
    splits = [call for call in splits if call.args and not _in_order(reading, call)]
    if not splits:
        return
    windows = _windows(reading)
    classes = _classes(reading)
    for call in splits:
        for value in call.args:
            made = {reading.calls[n].name for v in evaluate.options(reading, value, call)
                    for n in (v.call, *v.calls) if n >= 0}  # fmt: skip
            names = {reading.key(name, call.scope) for name in value.all_names if name}
            if names & windows or made & classes:
                yield Match(call.span, "windows that overlap are split at random")
                break


def _in_order(reading: Training, call: Call) -> bool:
    """shuffle=False, or groups that stay together."""
    value = call.keywords.get("shuffle")
    return value is not None and evaluate.truth(reading, value, call) is not True


def _windows(reading: Training) -> set[Key]:
    """Names that hold overlapping windows, also as results of the file's functions."""
    found: set[Key] = set()
    for each in reading.assignments:
        if any(_is_cut(reading, part) for part in _parts(reading, each.value)):
            found.add(reading.key(each.target, each.scope))
    for call in reading.named("append"):
        loop = reading.loop_of(call)
        if loop is None or loop.iterable is None or not call.args:
            continue
        for value in flatten(call.args):
            if _overlaps(reading, value, loop.target, loop.iterable):
                found.add(reading.key(call.receiver, call.scope))
    for _ in range(ROUNDS if found else 0):
        found |= {key for key in _passed_on(reading, found)}
    return found


def _parts(reading: Training, value: Value) -> Iterator[Value]:
    """The value, what it consists of, and the arguments of its calls."""
    arguments = [v for call in reading.inside(value) for v in call.args]
    yield from flatten([value, *arguments])


def _is_cut(reading: Training, value: Value) -> bool:
    """[x[i:i + size] for i in range(...)]: the iterable comes first, then the element."""
    if value.name != "ListComp" or len(value.items) < 2:
        return False
    over, *elements = value.items
    return any(
        _overlaps(reading, part, start.name, over)
        for part in flatten(elements)
        if (start := _start(part)) is not None
    )


def _start(value: Value) -> Value | None:
    """i of x[i:i + size], where i is a name."""
    cut = value.items[1] if value.kind == "item" and len(value.items) == 2 else None
    if cut is None or cut.kind != "slice" or len(cut.items) < 2:
        return None
    start, stop = cut.items[:2]
    ends = stop.name == "Add" and start.name in (v.name for v in stop.items)
    return start if start.kind == "name" and ends else None


def _overlaps(reading: Training, value: Value, variable: str, over: Value) -> bool:
    """x[i:i + size] for i in range(0, n, step) with a step below the size."""
    start = _start(value)
    if start is None or start.name != variable or over.kind != "call":
        return False
    made = reading.calls[over.call]
    if made.name != "range":
        return False
    size = next(v for v in value.items[1].items[1].items if v.name != start.name)
    if len(made.args) < 3:
        return size.literal != 1
    steps, sizes = (
        [n for n in evaluate.literals(reading, v, made) if isinstance(n, int)]
        for v in (made.args[2], size)
    )
    if steps and max(steps) == 1:
        return size.literal != 1
    return bool(steps and sizes) and max(steps) < min(sizes)


def _passed_on(reading: Training, found: set[Key]) -> Iterator[Key]:
    """Names that are made of windows: by an assignment, or as a result of a function."""
    for each in reading.assignments:
        names = each.value.all_names
        if each.value.kind in ("call", "name") and any(
            reading.key(name, each.scope) in found for name in names if name
        ):
            yield reading.key(each.target, each.scope)
    for number, function in enumerate(reading.script.functions):
        names = tuple(n for value in function.returns for n in value.all_names if n)
        if number and any(reading.key(name, number) in found for name in names):
            for site in reading.call_sites.get(number, ()):
                call = reading.calls[site]
                yield from (reading.key(name, call.scope) for name in call.targets)


def _classes(reading: Training) -> set[str]:
    """Datasets of this file whose item i is x[i:i + size]."""
    return {
        function.owner
        for function in reading.script.functions
        if function.name == "__getitem__" and len(function.parameters) == 2
        for value in flatten(function.returns)
        if (start := _start(value)) is not None and start.name == function.parameters[1].name
    }


RULES = (
    Rule(
        code="SCR337",
        slug="overlapping-windows-split",
        title="Windows that overlap are not split at random",
        severity="warn",
        find=windows_split,
        why="Windows of one series that begin a step apart share nearly all of their values. Split "
        "at random, most of the validation windows have neighbours in the training, so the "
        "validation measures memory.",
        fires=(
            "random_split() or a shuffling train_test_split() of windows x[i:i + size] whose step "
            "is below their size",
        ),
        fix="Split the series by time, or by what it was measured of, and cut windows afterwards; "
        "leave a gap of one window between the parts.",
        sources=("sklearn-time-series",),
        limits="that windows which another file cuts do not overlap.",
        needs=("random_split", "train_test_split"),
    ),
)
