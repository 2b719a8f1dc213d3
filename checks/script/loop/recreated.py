"""A rule on optimizers that a loop makes anew."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import amp, objects
from doctor.checks.script.lineage import parameter_owners
from doctor.checks.script.loop.zeroed import stepped
from doctor.checks.script.reading import within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Loop

STATEFUL = ("Adam", "AdamW", "RMSprop", "NAdam", "RAdam", "Adagrad", "Adamax", "Adadelta", "Lion")


RESET = re.compile("load|reset|restore|init|apply|copy_")
"""In the names of what gives a model other weights."""


def optimizer_made_each_step(reading: Training) -> Iterator[Match]:
    for number, call in reading.numbered(reading.optimizers):
        if not call.loops or not call.targets or not _keeps_state(call):
            continue
        steps = [
            other
            for other in reading.named("step")
            if stepped(reading, other) in call.targets and other.scope == call.scope
        ]
        if not any(step.loops == call.loops and within(step.arms, call.arms) for step in steps):
            continue
        owners = list(parameter_owners(reading, call, number))
        loop = call.loops[-1]
        if _is_made_otherwise(reading, call, number, loop):
            continue
        backward = [
            n
            for n in reading.backwards
            if reading.calls[n].loops[: len(call.loops)] == call.loops
            and reading.calls[n].scope == call.scope
        ]
        outside = owners and not any(_made_in(reading, owner, call, loop) for owner in owners)
        if backward and outside and not _starts_again(reading, owners, call, loop):
            message = f"{call.method} is made in every step: it starts without its averages"
            yield Match(call.span, message)
    yield from scaler_made_each_step(reading)
    yield from _made_each_epoch(reading)


def _made_each_epoch(reading: Training) -> Iterator[Match]:
    """An optimizer with momentum that every epoch makes anew, over a model from outside."""
    for number, call in reading.numbered(reading.optimizers):
        if len(call.loops) != 1 or len(call.targets) != 1 or not _keeps_state(call) or call.arms:
            continue
        loop = reading.loops[call.loops[0]]
        held = reading.names_of(call.targets[0], call.scope)
        steps = [
            other
            for other in reading.named("step")
            if reading.key(other.receiver, other.scope) in held
        ]
        owners = list(parameter_owners(reading, call, number))
        if (
            not _counts_epochs(loop)
            or not owners
            or not any(s.scope != call.scope or len(s.loops) > 1 for s in steps)
        ):
            continue
        if any(_made_in(reading, owner, call, call.loops[0]) for owner in owners):
            continue
        if not _starts_again(reading, owners, call, call.loops[0]):
            yield Match(call.span, f"{call.method} is made in every epoch: it starts without its "
                        "averages", "warn")  # fmt: skip


def _counts_epochs(loop: Loop) -> bool:
    names = loop.iterable.names if loop.iterable is not None else ()
    return any("epoch" in name.casefold() for name in (loop.target, *names))


def _is_made_otherwise(reading: Training, made: Call, number: int, loop: int) -> bool:
    """The name gets another object in the loop: booster.boost(model, optimizer)."""
    return any(
        n != number and set(reading.calls[n].targets) & set(made.targets)
        for n in reading.by_loop[loop]
    )


def _starts_again(reading: Training, owners: list[str], made: Call, loop: int) -> bool:
    """The weights are set back in every iteration, too: each task has its own training."""
    for number in objects.around(reading, made, loop):
        call = reading.calls[number]
        if not RESET.search(call.method.casefold()) or not within(made.arms, call.arms):
            continue
        given = {call.receiver, *(value.name for value in call.args)} - {""}
        whole = any(f"{owner}.".startswith(f"{name}.") for owner in owners for name in given)
        if whole or call.method == "copy_":
            return True
    return False


def _keeps_state(call: Call) -> bool:
    momentum = call.keywords.get("momentum")
    return call.method in STATEFUL or (
        call.method == "SGD" and momentum is not None and momentum.literal not in (0, 0.0)
    )


def _made_in(reading: Training, name: str, call: Call, loop: int) -> bool:
    """The object is made anew, copied or bound in the loop."""
    root = name.partition(".")[0]
    if root in reading.loops[loop].targets:
        return True
    return any(
        loop in each.loops
        for part in (name, root)
        for each in reading.assigned_to(part, call.scope)
    )


def scaler_made_each_step(reading: Training) -> Iterator[Match]:
    for number in amp.scalers(reading):
        call = reading.calls[number]
        steps = reading.named("step")
        if call.loops and any(
            step.receiver in call.targets and (step.scope, step.loops) == (call.scope, call.loops)
            for step in steps
        ):
            yield Match(call.span, "the GradScaler is made in every step: its scale starts again")


RULES = (
    Rule(
        code="SCR203",
        slug="optimizer-made-each-step",
        title="The optimizer is made once",
        severity="fail",
        find=optimizer_made_each_step,
        why="A new optimizer has no momentum and no averages. Adam's first step has the size of "
        "the learning rate in every parameter, whatever the gradient is.",
        fires=("an optimizer with state, or a GradScaler, is made in the loop that steps it",),
        fix="Make the optimizer before the loop.",
        sources=("torch-optimizer",),
    ),
)
