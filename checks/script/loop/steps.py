"""Rules on what one iteration does with gradients, and on optimizers that are made or not used."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import amp, evaluate, objects
from doctor.checks.script.loop.zeroed import stepped, zeroes
from doctor.checks.script.reading import exclusive, flatten, within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.script.containers import MARK


def steps_in_loops(reading: Training, alone: bool = False) -> Iterator[tuple[int, str, list[int]]]:
    """Steps of an optimizer within a loop, its name, and the backward calls before it there.

    `alone`: those outside of loops, too, as in a training_step.
    """
    for number, call in reading.numbered(reading.methods("step")):
        name = stepped(reading, call)
        if not name or not (call.loops or alone):
            continue
        before = [
            n
            for n in reading.backwards
            if n < number
            and reading.calls[n].scope == call.scope
            and reading.calls[n].loops[: len(call.loops)] == call.loops
            and not exclusive(reading.calls[n].arms, call.arms)
        ]
        yield number, name, before


def zeroed_before_step(reading: Training) -> Iterator[Match]:
    zeros = reading.methods("zero_grad")
    for number, name, before in steps_in_loops(reading, alone=True) if zeros else ():
        call = reading.calls[number]
        if call.loops:
            yield from _between_losses(reading, number, name, before)
        for zero, each in reading.numbered(zeros):
            if not before or not before[-1] < zero < number or each.loops != call.loops:
                continue
            if not within(call.arms, each.arms) or not zeroes(reading, each, name, call):
                continue
            if not _refilled(reading, zero, number):
                yield Match(each.span, f"{each.receiver}.zero_grad() between backward() and step()")


def _between_losses(
    reading: Training, number: int, name: str, before: list[int]
) -> Iterator[Match]:
    """Two losses of one step, and the gradients of the first are zeroed before the second."""
    step = reading.calls[number]
    if len(before) < 2 or any(
        before[-2] < n < number and reading.calls[n].method == "step" for n in range(number)
    ):
        return
    first, second = (reading.calls[n] for n in before[-2:])
    if not first.loops == second.loops == step.loops or not first.arms == second.arms == step.arms:
        return
    for zero, each in reading.numbered(reading.methods("zero_grad")):
        same = each.loops == step.loops and each.arms == step.arms
        if before[-2] < zero < before[-1] and same and zeroes(reading, each, name, step):
            read = any(
                ".grad" in a.target or ".grad" in " ".join(a.value.all_names)
                for a in reading.assignments
                if before[-2] < a.position <= zero
            ) or any(
                ".grad" in f"{reading.calls[n].name} {reading.calls[n].receiver}"
                or reading.target_function(reading.calls[n]) is not None
                for n in range(before[-2] + 1, zero)
            )
            if not read:
                yield Match(
                    each.span, f"{each.receiver}.zero_grad() takes the gradients of the loss before"
                )


def _refilled(reading: Training, zero: int, step: int) -> bool:
    """Something between may set the gradients again."""
    stored = [a.target for a in reading.assignments if zero < a.position <= step]
    if any(re.search(r"\._?grad\b", target) for target in stored):
        return True
    for number in range(zero + 1, step):
        call = reading.calls[number]
        names = [
            call.receiver,
            *(name for value in call.args for name in value.all_names),
        ]
        if any(name.endswith(".grad") for name in names):
            return True
        if amp.is_clip(call) or call.method in ("unscale_", "item", "print"):
            continue
        if reading.target_function(call) is not None or call.method in ("backward", "grad"):
            return True
        if any("grad" in name.casefold() for name in names[1:]):
            return True
        if any("loss" in name or name == call.receiver for name in names[1:] if name):
            return True
    return False


def clip_before_backward(reading: Training) -> Iterator[Match]:
    for number, call in reading.numbered(reading.methods(*amp.CLIPS)):
        if not call.loops or not amp.is_clip(call) or reading.is_evaluation(call):
            continue
        here = objects.around(reading, call, call.loops[-1])
        backward = [n for n in here if n in reading.backward_numbers]
        steps = [n for n in here if n > number and stepped(reading, reading.calls[n])]
        first = min(backward, default=number)
        if first <= number or not steps or any(n < first for n in steps):
            continue
        between = [n for n in here if first > n > number and reading.calls[n].method == "step"]
        calls_out = any(
            reading.target_function(reading.calls[n]) is not None for n in here if n < number
        )
        if not between and not calls_out:
            yield Match(call.span, "gradients are clipped before backward() computes them")


def optimizer_never_steps(reading: Training) -> Iterator[Match]:
    if reading.trainers or reading.imports_from(*amp.FRAMEWORKS) or reading.fits:
        return
    looped = any(reading.calls[n].loops for n in reading.backwards)
    calls = reading.named("step")
    for number in reading.optimizers if looped else ():
        call = reading.calls[number]
        if len(call.targets) != 1 or call.arms or "." in call.targets[0].replace(f".{MARK}", ""):
            continue
        name = call.targets[0]
        if any(each.name == f"{name}.step" for each in reading.script.bare):
            continue
        held = reading.names_of(name, call.scope)
        if any(_steps_it(reading, each, held) for each in calls):
            continue
        if not any(leaves(reading, *key) for key in held):
            yield Match(call.span, f"{name}.step() is never called")


def _steps_it(reading: Training, step: Call, held: set[tuple[object, str]]) -> bool:
    """Of `for o in (one, other): o.step()`, each of them."""
    names = {step.receiver, *(v.name for v in step.args if v.kind == "name")}
    for loop in (reading.loops[n] for n in step.loops):
        if loop.iterable is not None and names & set(loop.targets):
            names |= set(loop.iterable.all_names)
    return any(name and reading.key(name, step.scope) in held for name in names)


SCHEDULES = ("torch.optim.lr_scheduler.", "transformers.get_", "torch.save")


def leaves(reading: Training, owner: object, name: str, quiet: tuple[str, ...] = SCHEDULES) -> bool:
    """The object gets another name, is returned, or reaches a function of another file.

    `quiet`: the beginnings of names of functions that may have it.
    """
    for value, _, scope in reading.expressions:
        names = set(value.all_names)
        if f"{name}.step" in names:
            return True
        if name in names and reading.key(name, scope) == (owner, name):
            whole = value.kind == "name" or any(v.name == name for v in flatten(value.items))
            if whole and not _is_argument(reading, value, scope):
                return True
    return any(
        name in v.all_names and reading.key(name, call.scope) == (owner, name)
        for call in reading.calls
        if reading.target_function(call) is None and not call.name.startswith(quiet)
        for v in (*call.values, *call.unpacked)
        if v.kind in ("name", "list", "dict", "choice")
    )


def _is_argument(reading: Training, value: Value, scope: int) -> bool:
    """It is an argument of some call, which is judged by that call."""
    return any(value in call.values for call in reading.calls_in(scope))


METHODS = {"zero_grad", "step", "backward", "eval", "train", "unscale_", "barrier", "synchronize"}


def method_not_called(reading: Training) -> Iterator[Match]:
    for each in reading.script.bare:
        if each.name.rpartition(".")[2] in METHODS:
            yield Match(each.span, f"{each.name} is named and not called: () is missing")
    for number in (*reading.optimizers, *reading.methods("save")):
        call = reading.calls[number]
        first = call.args[0].name if call.args and call.args[0].kind == "name" else ""
        wanted = "state_dict" if call.name == "torch.save" else "parameters"
        if (
            first.rpartition(".")[2] == wanted
            and "." in first
            and not _is_setting(reading, first, call)
            and not reading.assigned_to(first, call.scope)
            and call.method != "create_optimizer"
        ):
            yield Match(call.span, f"{first} is passed and not called: () is missing")


def _is_setting(reading: Training, name: str, call: Call) -> bool:
    """config.parameters of an argument that is no model by its name."""
    root = name.partition(".")[0]
    given = evaluate.is_parameter(reading, call.scope, root)
    return given and not re.search("model|net|module|encoder|self", root.casefold())


RULES = (
    Rule(
        code="SCR201",
        slug="zeroed-before-step",
        title="Gradients are kept between backward() and step()",
        severity="fail",
        find=zeroed_before_step,
        why="step() applies the gradients that zero_grad() just removed: with plain SGD no weight "
        "changes, and Adam applies its weight decay only.",
        fires=("backward(), zero_grad() and step() of one optimizer in this order",),
        fix="Call zero_grad() before backward(), or after step().",
        needs=("zero_grad",),
        sources=("ps-P4",),
    ),
    Rule(
        code="SCR202",
        slug="clip-before-backward",
        title="Gradients are clipped after backward()",
        severity="warn",
        find=clip_before_backward,
        why="Before backward() the gradients are empty or those of the step before: the step "
        "applies gradients that nothing clipped.",
        fires=("a clip and then the iteration's only backward(), before the step",),
        fix="Move the clip between backward() and step().",
        needs=("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"),
        sources=("ps-P13",),
    ),
    Rule(
        code="SCR204",
        slug="optimizer-never-steps",
        title="The optimizer steps",
        severity="fail",
        find=optimizer_never_steps,
        why="backward() computes gradients; only step() changes weights.",
        fires=("backward() in a loop, and no step in the file",),
        fix="Call optimizer.step() after backward().",
        sources=("ps-P4",),
    ),
    Rule(
        code="SCR205",
        slug="method-not-called",
        title="Methods of the training loop are called",
        severity="fail",
        find=method_not_called,
        why="Python evaluates `optimizer.zero_grad` and discards it: without parentheses nothing "
        "happens, and nothing complains.",
        fires=("a line that is only the name of step, zero_grad, backward, train or eval",),
        fix="Add the parentheses.",
        sources=("ps-P4",),
    ),
)
