"""A rule on schedules that are counted in another unit than they step in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from operator import is_

from doctor.checks.script import evaluate
from doctor.checks.script.loop.in_samples import in_samples
from doctor.checks.script.loop.index_of_epoch import starts_over
from doctor.checks.script.loop.lightning_schedules import stepped_per_epoch
from doctor.checks.script.loop.schedule_lengths import LENGTHS, of_lambda
from doctor.checks.script.loop.schedule_settings import counted_apart
from doctor.checks.script.loop.schedules import (
    returned_schedulers,
    scheduler_steps,
    schedulers,
    takes_epoch,
)
from doctor.checks.script.loop.zeroed import stepped
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import expanded, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Loop, Value

GO_ON = ("CosineAnnealingLR", "LinearLR")
"""After its length the first turns back and the second stays: one epoch of them may be meant."""


def wrong_unit(reading: Training) -> Iterator[Match]:
    yield from stepped_per_epoch(reading)
    yield from in_samples(reading)
    yield from starts_over(reading)
    yield from _in_micro_batches(reading)
    for number, name, home in _with_homes(reading):
        made = reading.calls[number]
        apart = list(counted_apart(reading, number, name, home))
        yield from apart
        if apart:
            continue
        length = _length(reading, made)
        if length is None:
            continue
        for step in scheduler_steps(reading, name, made, partial(is_, made), home):
            if match := _wrong_step(reading, name, made, step, length, home):
                yield match
                break


def _wrong_step(
    reading: Training, name: str, made: Call, step: Call, length: list[Value], home: int
) -> Match | None:
    if _once_per_call(reading, made, step, length):
        return Match(step.span, f"{name} is made for every batch, and steps once per epoch")
    if step.loops and _in_epochs_of_caller(reading, made, step, length, home):
        return Match(step.span, f"{name} is as long as the epochs, and steps in every batch")
    applied = _applied(reading, step)
    if step.args or step.keywords or not step.loops or applied is None:
        return None
    if message := _mismatch(reading, made, step, applied, length):
        return Match(step.span, f"{name} {message}")
    if message := _in_batches(reading, step, length):
        return Match(made.span, f"{name} {message}", "warn")
    return None


def _with_homes(reading: Training) -> Iterator[tuple[int, str, int]]:
    """Schedulers with their name and the scope that has it."""
    for number, name in schedulers(reading):
        yield number, name, reading.calls[number].scope
    yield from returned_schedulers(reading)


def _in_micro_batches(reading: Training) -> Iterator[Match]:
    """The scheduler steps in an inner loop with backward(), and the optimizer after that loop."""
    for number, name in schedulers(reading):
        made = reading.calls[number]
        for step in scheduler_steps(reading, name, made, takes_epoch):
            if not step.loops or step.arms:
                continue
            inside = reading.by_loop[step.loops[-1]]
            applied = [n for n in reading.methods("step") if stepped(reading, reading.calls[n])]
            after = [
                n for n in applied
                if reading.calls[n].loops == step.loops[:-1] != ()
                and reading.calls[n].scope == step.scope
            ]  # fmt: skip
            summed = reading.backward_numbers & set(inside)
            if summed and after and not set(applied) & set(inside):
                yield Match(step.span, f"{name} steps in every batch that one step sums up")


def _once_per_call(reading: Training, made: Call, step: Call, length: list[Value]) -> bool:
    """The step is behind the batches of a function that the loop over epochs calls."""
    inside = [
        call.loops for n in reading.methods("step")
        if stepped(reading, call := reading.calls[n]) and call.scope == step.scope and call.loops
    ]  # fmt: skip
    sites = reading.callers(step.scope)
    batches = "steps_per_epoch" in made.keywords or any(
        _is_product(each) and "len(" in render(reading, each) for each in length
    )
    epochs = len(sites) == 1 and bool(sites[0].loops)
    return not step.loops and not step.args and bool(inside) and batches and epochs


def _in_epochs_of_caller(
    reading: Training, made: Call, step: Call, length: list[Value], home: int
) -> bool:
    """The step is in the loop of a function that the loop over epochs calls."""
    sites = reading.callers(step.scope)
    if len(sites) != 1 or home != sites[0].scope or step.args or made.loops:
        return False
    if made.method == "StepLR":
        return False
    counts = [_count(reading, reading.loops[n]) for n in sites[0].loops]
    return any(_same(count, each) for count in counts if count is not None for each in length)


def _length(reading: Training, made: Call) -> list[Value] | None:
    """What the schedule's length may be, written out."""
    if made.method == "OneCycleLR" and "steps_per_epoch" in made.keywords:
        return [Value("other", name="Mult", calls=made.keywords["steps_per_epoch"].calls)]
    if made.method == "LambdaLR":
        return of_lambda(reading, made) or None
    name, position = LENGTHS.get(made.method, ("", 0))
    value = evaluate.argument(reading, made, name, position) if name else None
    if value is None:
        return None
    return [value, *evaluate.options(reading, value, made)]


def _applied(reading: Training, step: Call) -> Call | None:
    """The step of an optimizer nearest to the scheduler's, in the loops around or inside."""
    steps = [
        call
        for n in reading.methods("step")
        if stepped(reading, call := reading.calls[n])
        and call.scope == step.scope
        and call.loops
        and _nested(call.loops, step.loops)
    ]
    return max(steps, key=lambda call: len(call.loops), default=None)


def _ends_early(reading: Training, step: Call, applied: Call, length: list[Value]) -> bool:
    """The length is divided by the accumulation that decides about the optimizer's step alone."""
    own = {branch for branch, _ in step.arms}
    extra = [branch for branch, _ in applied.arms if branch not in own]
    tests = [reading.written_test(branch, step.scope) for branch in extra]
    periods = [test for test in tests if test is not None and "%" in test.text]
    divided = any(each.name in ("Div", "FloorDiv") for each in length)
    texts = " ".join(expanded(reading, each, step) for each in length) if periods else ""
    texts = re.sub(r"/[\w.]*\([^()]*\)", "/…", texts)  # a batch that is divided is smaller
    return bool(periods) and (divided or any(
        re.search(rf"/{re.escape(name)}(?![\w.])", texts)
        for test in periods for name in test.all_names if re.search("accum", name, re.I)
    ))  # fmt: skip


def _nested(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one[: len(other)] == other or other[: len(one)] == one


def _mismatch(reading: Training, made: Call, step: Call, applied: Call, length: list[Value]) -> str:
    loops = [reading.loops[n] for n in applied.loops]
    per_step = step.loops == applied.loops
    epochs = [loop for loop in loops[:-1] if _count(reading, loop) is not None]
    product = any(_is_product(each) for each in length)
    if per_step and len(loops) > 1 and not product and not _is_written_out(loops[-1]):
        counts = [_count(reading, loop) for loop in epochs]
        if any(_same(count, each) for count in counts if count is not None for each in length):
            return "is as long as the epochs, and steps in every batch"
        if len(made.loops) < len(applied.loops) - 1 or not made.loops:
            source = _source(loops[-1])
            whole = source and any(_is_len(reading, each, source) for each in length)
            ends = made.method not in GO_ON and made.method != "StepLR"
            if ends and epochs and whole and not any(_count_is_one(count) for count in counts):
                return "is as long as one epoch, and steps through several"
    if per_step:
        return _too_early(reading, step, applied, length)
    if len(step.loops) < len(applied.loops) and product and not made.loops:
        source = _source(reading.loops[applied.loops[len(step.loops)]])
        cycle = "steps_per_epoch" in made.keywords and bool(length[0].calls)
        if cycle or (source and any(_holds_len(reading, each, source) for each in length)):
            return "is made for every batch, and steps once per epoch"
    return ""


def _too_early(reading: Training, step: Call, applied: Call, length: list[Value]) -> str:
    """A schedule that is divided by something, and steps in every batch."""
    loops = [reading.loops[n] for n in applied.loops]
    counts = [count for loop in loops[:-1] if (count := _count(reading, loop)) is not None]
    if not _is_written_out(loops[-1]) and any(
        _is_part(count, each) for count in counts for each in length
    ):
        return "is a part of the epochs long, and steps in every batch"
    if _ends_early(reading, step, applied, length):
        return "is made for the optimizer's steps, and steps in every batch"
    return ""


def _count(reading: Training, loop: Loop) -> Value | None:
    """N of `for epoch in range(N)`, also from a first epoch on, and under tqdm."""
    value = loop.iterable
    while value is not None and value.kind == "call":
        call = reading.calls[value.call]
        if call.method == "range" and 1 <= len(call.args) <= 2:
            return _without_one(call.args[-1])
        value = call.args[0] if call.method in ("tqdm", "trange", "track") and call.args else None
        if call.method == "trange":
            return value
    return None


def _without_one(value: Value) -> Value:
    """N of range(1, N + 1)."""
    if value.kind == "other" and value.name == "Add" and len(value.items) == 2:
        first, second = value.items
        return first if second.kind == "literal" and second.literal == 1 else value
    return value


def _is_part(count: Value, length: Value) -> bool:
    """N // 2 of N epochs."""
    return (
        length.kind == "other"
        and length.name in ("FloorDiv", "Div")
        and len(length.items) == 2
        and _same(count, length.items[0])
        and length.items[1].kind == "literal"
    )


def _count_is_one(count: Value | None) -> bool:
    return count is not None and count.kind == "literal" and count.literal == 1


def _is_written_out(loop: Loop) -> bool:
    """`for x in [batch]`: as many steps as anyone can count."""
    return loop.iterable is not None and loop.iterable.kind == "list"


def _same(one: Value, other: Value) -> bool:
    """The same name: equal numbers may count different things."""
    return one.kind == "name" == other.kind and one.name == other.name


def _source(loop: Loop) -> str:
    """The name of what a loop over batches iterates, under enumerate and tqdm."""
    value = loop.iterable
    names = [name for name in (value.all_names if value else ()) if name]
    return names[0] if len(names) == 1 else ""


def _is_len(reading: Training, value: Value, source: str) -> bool:
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    return call.name == "len" and bool(call.args) and call.args[0].name == source


def _holds_len(reading: Training, value: Value, source: str) -> bool:
    return any(
        call.name == "len" and source in [v.name for v in call.args]
        for call in reading.inside(value)
    )


def _is_product(value: Value) -> bool:
    return value.kind == "other" and value.name in ("Mult", "FloorDiv", "Div")


def _in_batches(reading: Training, step: Call, length: list[Value]) -> str:
    """len(loader) * epochs, and a step in every Nth batch."""
    tests = [t.text for t in reading.tests(step)]
    rest = [m for t in tests if (m := re.search(r"%\s*\(?([\w.]+)\)?\s*==", t))]
    divides = any(
        part.name in ("Div", "FloorDiv", "Mod") for value in length for part in flatten([value])
    )
    rounded = any(re.search(r"ceil\(|/", expanded(reading, v, step, 3)) for v in length)
    if len(rest) != 1 or rest[0][1] == "1" or divides or rounded:
        return ""
    loops = [reading.loops[n] for n in step.loops]
    sources = {n for loop in loops if loop.iterable is not None
               for n in loop.iterable.all_names if n}  # fmt: skip
    counted = any(_is_len(reading, part, source) for value in length
                  for part in flatten([value]) for source in sources)  # fmt: skip
    return f"counts batches, and steps after {rest[0][1]} of them: it never ends" if counted else ""


RULES = (
    Rule(
        code="SCR208",
        slug="schedule-in-wrong-unit",
        title="A schedule is as long as the steps that it gets",
        severity="fail",
        find=wrong_unit,
        why="A schedule of as many steps as epochs ends after the first few batches; one for all "
        "batches that steps per epoch stays in its warm-up. The rate is wrong for most of the run.",
        fires=(
            "a length that is the number of epochs, and step() in the loop over batches",
            "a warm-up, milestones or a step_size in epochs, and step() in the loop over batches",
            "a length of len(loader) of a schedule that ends, and step() per batch in a loop over "
            "epochs",
            "a length of len(loader) * epochs, and step() once per epoch",
            "group['lr'] = rate(i, epochs * len(loader)) of i, batch in enumerate(loader)",
            "a warning: a length of len(loader) * epochs, and a step in every Nth batch",
            "a warning: configure_optimizers of Lightning returns OneCycleLR(steps_per_epoch=...), "
            'or a schedule of estimated_stepping_batches, without interval="step"',
        ),
        fix="Count the schedule in optimizer steps, epochs * len(loader), and step it after each; "
        "or count in epochs and step it once per epoch.",
        sources=("torch-lr-scheduler", "pytorch-65417", "pytorch-lightning-19774"),
    ),
)
