"""Rules on loops that compute no gradients, or end before their last batch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loop.zeroed import stepped
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training


def backward_missing(reading: Training) -> Iterator[Match]:
    words = ("backward", "closure", "autograd", "accelerator", "fabric", "engine", "scaler", "hebb")
    if reading.mentions(*words) or reading.trainers or reading.fits:
        return
    for call in reading.named("step"):
        name = stepped(reading, call)
        if not name or not call.loops or reading.assigned.get(reading.key(f"{name}.step", 0)):
            continue
        made = [reading.calls[n] for n in reading.optimizers if name in reading.calls[n].targets]
        zeroed = any(
            other.receiver == name and other.loops == call.loops
            for other in reading.named("zero_grad")
        )
        losses = [
            each
            for each in reading.assignments
            if each.loops == call.loops and each.target.casefold().endswith("loss")
            and not any(re.search("train|step|update|fit|learn", inner.name.casefold())
                        for inner in reading.inside(each.value))
        ]  # fmt: skip
        if made and zeroed and losses and not any(".grad" in a.target for a in reading.assignments):
            yield Match(call.span, f"{name} steps, and backward() is called nowhere")
            return


def returns_in_loop(reading: Training) -> Iterator[Match]:
    """A return at the end of the first iteration, unconditionally."""
    for scope, function in enumerate(reading.script.functions):
        for (position, arms), span, loops in zip(
            function.exits, function.exit_spans, function.exit_loops, strict=False
        ):
            if arms or not loops or reading.loops[loops[-1]].kind != "for":
                continue
            inside = [
                n
                for n in reading.backwards
                if reading.calls[n].scope == scope and reading.calls[n].loops == loops
            ]
            steps = any(
                reading.calls[n].scope == scope and n < position
                for n in reading.methods("step")
                if reading.calls[n].loops == loops
            )
            trains = bool(inside) and max(inside) < position and steps
            if trains or _collects(reading, scope, position, loops):
                yield Match(span, "the function returns after the first iteration of the loop")


def _collects(reading: Training, scope: int, position: int, loops: tuple[int, ...]) -> bool:
    """Each iteration adds to a sum or a list that was there before the loop."""
    here = [
        a.target
        for a in reading.assignments
        if (a.scope, a.loops) == (scope, loops) and a.augmented and a.position <= position
        and a.operator == "Add" and not a.arms
    ]  # fmt: skip
    here += [
        call.receiver
        for n in reading.scope_calls(scope)
        if n < position and (call := reading.calls[n]).method == "append"
        and call.loops == loops and call.statement and not call.arms
    ]  # fmt: skip
    return any(
        a.target in here and a.scope == scope and len(a.loops) < len(loops) and not a.augmented
        for a in reading.assignments
    )


def closure_missing(reading: Training) -> Iterator[Match]:
    for call in reading.named("step"):
        if call.args or call.keywords or call.unpacked or not call.receiver:
            continue
        values = evaluate.receivers(reading, call)
        if values and all(
            each.kind == "call" and reading.calls[each.call].name == "torch.optim.LBFGS"
            for each in values
        ):
            yield Match(call.span, f"{call.receiver} is LBFGS: step() needs a closure")


RULES = (
    Rule(
        code="SCR287",
        slug="backward-missing",
        title="A loop that steps calls backward()",
        severity="fail",
        find=backward_missing,
        why="Without backward() there are no gradients: step() changes nothing.",
        fires=("a loss, zero_grad() and step() in a loop, and no backward() in the file",),
        fix="Call loss.backward() before the step.",
        needs=("zero_grad",),
        sources=("pyramidbox-7",),
    ),
    Rule(
        code="SCR288",
        slug="return-in-loop",
        title="The loop over batches reads all batches",
        severity="fail",
        find=returns_in_loop,
        why="A return that is indented too far ends the function after the first batch: every "
        "epoch trains on one, or the score is that of one.",
        fires=(
            "an unconditional return in a for loop that calls backward() and step()",
            "the same in one that adds to a sum or a list: an evaluation of one batch",
        ),
        fix="Move the return out of the loop.",
        sources=("ps-P4",),
    ),
    Rule(
        code="SCR289",
        slug="closure-missing",
        title="LBFGS steps with a closure",
        severity="fail",
        find=closure_missing,
        why="LBFGS evaluates the loss several times in a step: step() without a closure raises a "
        "TypeError.",
        fires=("step() without an argument on torch.optim.LBFGS",),
        fix="Pass a function that zeroes gradients, computes the loss, propagates and returns it.",
        needs=("LBFGS",),
        sources=("torch-optim-closure",),
    ),
)
