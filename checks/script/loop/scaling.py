"""Rules on the GradScaler: what is scaled, unscaled, clipped, stepped and updated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from doctor.checks.script import amp
from doctor.checks.script.loop.skipped_updates import update_skipped
from doctor.checks.script.reading import within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call
from doctor.script.fixes import makers
from doctor.script.fixes.makers import Fix

OPTIMIZER = re.compile(r"(^|_)opt(\d*|s?)(_|$)|_opt$|^opt[A-Z\d]?$")
"""What people call an optimizer, besides a word with "optim" in it."""


def clip_without_unscale(reading: Training) -> Iterator[Match]:
    for backward, scaler in amp.scaled_backwards(reading):
        scope = reading.calls[backward].scope
        if amp.is_off(reading, scaler, scope) is True:
            continue
        steps = amp.on_scaler(reading, scope, scaler, "step")
        unscales = amp.on_scaler(reading, scope, scaler, "unscale_")
        for clip in reading.scope_calls(scope):
            if not amp.is_clip(reading.calls[clip]) or clip < backward:
                continue
            step = next((s for s in steps if s > clip), None)
            if step is None or not amp.same_path(reading, backward, clip, step):
                continue
            if any(u < clip and amp.same_path(reading, u, clip) for u in unscales):
                continue
            message = f"gradients are clipped before {scaler}.unscale_(optimizer)"
            yield Match(reading.calls[clip].span, message)
    yield from _clip_past_accelerate(reading)


def _clip_past_accelerate(reading: Training) -> Iterator[Match]:
    """clip_grad_norm_() of torch beside Accelerator(mixed_precision="fp16"), which scales."""
    made = reading.named("Accelerator")
    fp16 = [c for c in made if (v := c.keywords.get("mixed_precision")) is not None
            and v.literal == "fp16"]  # fmt: skip
    if not fp16 or len(made) != 1 or reading.mentions("unscale_gradients"):
        return
    for call in reading.named(*amp.CLIPS):
        inside = [reading.calls[m] for m in reading.by_loop.get(call.loops[-1], ())] if (
            call.loops) else []  # fmt: skip
        own = any(c.method == "backward" and c.receiver in fp16[0].targets for c in inside)
        if amp.is_clip(call) and call.receiver not in fp16[0].targets and own:
            yield Match(call.span, "gradients are clipped as accelerate scaled them, for fp16")


def update_missing(reading: Training) -> Iterator[Match]:
    for number, scaler in _stepping(reading):
        call = reading.calls[number]
        if updates := amp.on_scaler(reading, call.scope, scaler, "update"):
            yield from update_skipped(reading, call.scope, scaler, updates)
            continue
        if _elsewhere(reading, call.scope, "update"):
            continue
        yield Match(call.span, f"{scaler}.step() without {scaler}.update()")


def _stepping(reading: Training) -> Iterator[tuple[int, str]]:
    """The first scaler.step of each function that also scales the loss."""
    visited = set()
    for backward, scaler in amp.scaled_backwards(reading):
        scope = reading.calls[backward].scope
        if (scope, scaler) in visited or amp.is_off(reading, scaler, scope) is True:
            continue
        visited.add((scope, scaler))
        steps = amp.on_scaler(reading, scope, scaler, "step")
        if steps:
            yield steps[0], scaler


def _elsewhere(reading: Training, scope: int, method: str) -> bool:
    """Another function of the file calls a method of a scaler: it may be this one."""
    return any(
        "scaler" in call.receiver.casefold() and call.scope != scope
        for call in reading.named(method)
    )


def step_past_scaler(reading: Training) -> Iterator[Match]:
    for backward, scaler in amp.scaled_backwards(reading):
        call = reading.calls[backward]
        if amp.is_off(reading, scaler, call.scope) is True:
            continue
        if stepped := amp.on_scaler(reading, call.scope, scaler, "step"):
            yield from _stepped_twice(reading, stepped, scaler)
            continue
        unscaled = amp.on_scaler(reading, call.scope, scaler, "unscale_")
        for step in _optimizer_steps(reading, call.scope):
            if step > backward and amp.same_path(reading, backward, step) and not unscaled:
                name = reading.calls[step].receiver
                message = f"{name}.step() applies scaled gradients; {scaler}.step({name}) unscales"
                yield Match(reading.calls[step].span, message)


def _stepped_twice(reading: Training, stepped: Sequence[int], scaler: str) -> Iterator[Match]:
    """scaler.step(optimizer) and optimizer.step() for the same gradients."""
    for number in stepped:
        first = reading.calls[number]
        name = first.args[0].name if first.args else ""
        for position, again in reading.numbered(reading.methods("step")):
            if any(number < n < position for n in reading.backwards):
                continue  # it applies gradients of its own
            if name and again.receiver == name and again.loops == first.loops and (
                again.arms == first.arms and again.scope == first.scope
            ):  # fmt: skip
                yield Match(again.span, f"{scaler}.step({name}) has stepped: this is a second step")


def _optimizer_steps(reading: Training, scope: int) -> list[int]:
    """Calls of step() on something that is an optimizer by its name or its making."""
    return [
        n
        for n in reading.methods("step")
        if reading.calls[n].scope == scope and is_optimizer(reading, reading.calls[n])
    ]


def is_optimizer(reading: Training, call: Call) -> bool:
    """Whether the receiver is an optimizer."""
    name = call.receiver.rpartition(".")[2].casefold()
    if "sched" in name or "scaler" in name:
        return False
    if "optim" in name or OPTIMIZER.search(name):
        return True
    key = reading.key(call.receiver, call.scope)
    return any(
        each.value.kind == "call" and each.value.call in reading.optimizers
        for each in reading.assigned.get(key, ())
    )


def backward_unscaled(reading: Training) -> Iterator[Match]:
    for step, call in reading.numbered(reading.methods("step")):
        scaler = call.receiver
        if "scaler" not in scaler.casefold() or not call.args or call.args[0].kind != "name":
            continue
        if amp.is_off(reading, scaler, call.scope) is True:
            continue
        here = [n for n in reading.methods("backward") if reading.calls[n].scope == call.scope]
        before = [n for n in here if n < step and amp.same_path(reading, n, step)]
        scaled = [n for n in here if amp.scale_of(reading, reading.calls[n], n) is not None]
        if not before or any(amp.same_path(reading, n, step) for n in scaled):
            continue
        if reading.methods("scale"):
            continue
        span = reading.calls[before[-1]].span
        yield Match(span, f"backward() of an unscaled loss before {scaler}.step()")
    yield from _mixed(reading)


def _mixed(reading: Training) -> Iterator[Match]:
    """A plain backward that adds to scaled gradients of the same step."""
    for scaled, scaler in amp.scaled_backwards(reading):
        call = reading.calls[scaled]
        steps = amp.on_scaler(reading, call.scope, scaler, "step")
        step = next((n for n in steps if n > scaled), None)
        if step is None or amp.is_off(reading, scaler, call.scope) is True:
            continue
        for number, plain in reading.numbered(reading.methods("backward")):
            if not scaled < number < step or not _adds_unscaled(reading, plain, number, call):
                continue
            between = [n for n in reading.methods("zero_grad") if scaled < n < number]
            if not between and amp.same_path(reading, scaled, number, step):
                message = f"{plain.receiver}.backward() adds unscaled gradients to scaled ones"
                yield Match(plain.span, message)


def _adds_unscaled(reading: Training, plain: Call, number: int, scaled: Call) -> bool:
    """A backward of a loss in the same loop that no scaler scaled."""
    return (
        (plain.scope, plain.loops) == (scaled.scope, scaled.loops)
        and "loss" in plain.receiver.casefold()
        and amp.scale_of(reading, plain, number) is None
    )


def unscale_twice(reading: Training) -> Iterator[Match]:
    for backward, scaler in amp.scaled_backwards(reading):
        scope = reading.calls[backward].scope
        unscales = amp.on_scaler(reading, scope, scaler, "unscale_")
        updates = amp.on_scaler(reading, scope, scaler, "update")
        for first, second in pairwise(unscales):
            one, other = reading.calls[first], reading.calls[second]
            if not one.args or not other.args or one.args[0] != other.args[0]:
                continue
            if not amp.same_path(reading, first, second) or one.loops != other.loops:
                continue
            if any(first < update < second for update in updates):
                continue
            yield Match(other.span, f"a second {scaler}.unscale_() before {scaler}.update()")
        for number in unscales:
            call = reading.calls[number]
            if updates and all(_is_rarer(reading, reading.calls[n], call) for n in updates):
                message = f"{scaler}.unscale_() in every batch, and {scaler}.update() in some"
                fix = "Unscale and clip under the condition of the step, directly before it."
                yield Match(call.span, message, fix=fix)


def _is_rarer(reading: Training, update: Call, unscale: Call) -> bool:
    """It is in the same loop, under one more test of a remainder."""
    more = set(update.arms) - set(unscale.arms)
    tests = [test.text for branch, _ in more if (test := reading.test_of(branch)) is not None]
    same = update.loops == unscale.loops and within(update.arms, unscale.arms)
    return same and any("%" in text for text in tests)


def clip_after_step(reading: Training) -> Iterator[Match]:
    for clip, call in reading.numbered(reading.methods(*amp.CLIPS)):
        if call.method not in amp.CLIPS or reading.is_evaluation(call):
            continue
        here = [n for n in reading.scope_calls(call.scope) if reading.calls[n].loops == call.loops]
        backward = [
            n
            for n in reading.backwards
            if reading.calls[n].scope == call.scope
            and reading.calls[n].loops[: len(call.loops)] == call.loops
        ]
        steps = [n for n in here if _steps(reading, reading.calls[n])]
        if not backward or not steps or not call.loops:
            continue
        before = [n for n in steps if backward[-1] < n < clip and amp.same_path(reading, n, clip)]
        later = [n for n in (*steps, *backward) if n > clip]
        if before and not later:
            yield Match(call.span, "gradients are clipped after the optimizer's step")


def _steps(reading: Training, call: Call) -> bool:
    if call.method != "step":
        return False
    return is_optimizer(reading, call) or "scaler" in call.receiver.casefold()


RULES = (
    Rule(
        code="SCR101",
        slug="clip-without-unscale",
        title="Gradients are unscaled before they are clipped",
        severity="fail",
        find=clip_without_unscale,
        training=True,
        why="A GradScaler multiplies gradients by up to 65536. A clip before unscale_ sees the "
        "scaled norm and shrinks every step to max_norm / scale: with SGD nothing is learned, "
        "Adam hides it until its epsilon.",
        fires=("scale().backward(), a clip and scaler.step() without unscale_ before the clip",),
        fix="Call scaler.unscale_(optimizer) once, directly before the clip.",
        needs=("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"),
        sources=("ps-P7", "torch-amp-examples"),
        fixes=Fix(makers.unscale),
    ),
    Rule(
        code="SCR105",
        slug="scaler-update-missing",
        title="Every scaler.step() is followed by scaler.update()",
        severity="fail",
        find=update_missing,
        training=True,
        why="update() resets the scaler's record of what was unscaled and adapts the scale. "
        "Without it the next unscale_ or step raises, or the scale never falls after an overflow.",
        fires=(
            "scaler.step() in a loop without scaler.update()",
            "unscale_(), and then a test of the norm or the loss that leaves update() out",
        ),
        fix="Call scaler.update() once after scaler.step(optimizer).",
        sources=("ps-P5", "torch-amp-examples"),
    ),
    Rule(
        code="SCR106",
        slug="optimizer-step-bypasses-scaler",
        title="Scaled gradients are applied by scaler.step()",
        severity="fail",
        find=step_past_scaler,
        training=True,
        why="scaler.step(optimizer) unscales and skips steps with Inf or NaN. optimizer.step() "
        "applies gradients that are up to 65536 times too large, Inf included.",
        fires=("scaler.scale(loss).backward() and then optimizer.step()",),
        fix="Replace optimizer.step() by scaler.step(optimizer) and scaler.update().",
        sources=("ps-P5", "torch-amp-examples"),
    ),
    Rule(
        code="SCR107",
        slug="backward-unscaled",
        title="A loss that scaler.step() follows is scaled",
        severity="fail",
        find=backward_unscaled,
        training=True,
        why="A scaler makes its scale in the first call of scale(). Without one, step() raises "
        "'Attempted step but _scale is None'. A plain backward() beside a scaled one adds "
        "gradients that step() divides by up to 65536.",
        fires=(
            "loss.backward() and then scaler.step(optimizer), with no scale() in the file",
            "a plain backward() between a scaled one and the step of the same loop",
        ),
        fix="Call scaler.scale(loss).backward().",
        sources=("ps-P5", "torch-amp-examples"),
    ),
    Rule(
        code="SCR108",
        slug="unscale-twice",
        title="unscale_() is called once per step",
        severity="fail",
        find=unscale_twice,
        training=True,
        why="A second unscale_ for one optimizer before update() raises RuntimeError.",
        fires=(
            "two unscale_() of one optimizer on one path without update() between",
            "unscale_() in every batch, update() in each Nth",
        ),
        fix="Keep the first unscale_() of each step.",
        sources=("ps-P7", "torch-amp"),
    ),
    Rule(
        code="SCR109",
        slug="clip-after-step",
        title="Gradients are clipped before the step",
        severity="warn",
        find=clip_after_step,
        training=True,
        why="A clip after the optimizer's step changes gradients that were already applied.",
        fires=("a clip between optimizer.step() and the next backward()",),
        fix="Move the clip between backward() and the step.",
        needs=("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"),
        sources=("ps-P13",),
    ),
)
