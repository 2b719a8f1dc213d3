"""A rule on gradients that no step sets to zero."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loop.scaling import is_optimizer
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.training import Training
from doctor.facts.script import Call
from doctor.script.containers import MARK


def zero_grad_missing(reading: Training) -> Iterator[Match]:
    yield from _zeroed_outside(reading)
    yield from _one_of_several(reading)
    if reading.mentions("zero_grad", "zerograd", "deepspeed", "zero_gradients", "clear_grad"):
        return
    if any(a.target.endswith(".grad") for a in reading.assignments):
        return
    if any(c.loops and c.method in ("Adam", "SGD", "AdamW") for c in reading.calls):
        return
    for step, call in reading.numbered(reading.methods("step")):
        name = stepped(reading, call)
        if not name or not call.loops:
            continue
        known = _makes_optimizer(reading, name, call) or _is_passed(reading, name, call)
        if not known and not _is_given(reading, name, call):
            continue
        backward = [
            n
            for n in reading.backwards
            if reading.calls[n].scope == call.scope
            and n < step
            and reading.calls[n].loops[: len(call.loops)] == call.loops
        ]
        if backward and not _is_handed_on(reading, name, call):
            severity: Severity = "fail" if known else "warn"
            yield Match(call.span, f"{name} steps in a loop without zero_grad()", severity)
            return


def _zeroed_outside(reading: Training) -> Iterator[Match]:
    """Every zero_grad() of the file is outside of the loop that steps."""
    zeros = reading.named("zero_grad")
    if not zeros or any(a.target.endswith(".grad") for a in reading.assignments):
        return
    for number, call in reading.numbered(reading.methods("step")):
        if (
            not call.loops
            or not stepped(reading, call)
            or (call.args and "scaler" not in call.name)
        ):
            continue
        backward = [
            n
            for n in reading.backwards
            if reading.calls[n].scope == call.scope and reading.calls[n].loops == call.loops
        ]
        outer = all(
            zero.scope == call.scope
            and len(zero.loops) < len(call.loops)
            and call.loops[: len(zero.loops)] == zero.loops
            for zero in zeros
        )
        if outer and backward and min(backward) < number:
            yield Match(
                call.span, f"{call.receiver} steps in a loop, and zero_grad() is outside of it"
            )
            return


def _one_of_several(reading: Training) -> Iterator[Match]:
    """Of the optimizers of one loop, each held by a name, one is never zeroed."""
    zeros = reading.named("zero_grad")
    made = {
        reading.key(name, reading.calls[n].scope): n
        for n in reading.optimizers
        for name in reading.calls[n].targets
    }
    if len(made) < 2 or not zeros or any(a.target.endswith(".grad") for a in reading.assignments):
        return
    trained = {key: each.sink for each in reading.trained for key in each.lineage.names}
    if any(reading.key(z.receiver, z.scope) not in made.keys() | trained.keys() for z in zeros):
        return
    owners = {
        n: {_root(each.name) for each in reading.trained if each.sink == n} for n in made.values()
    }
    for number, call in reading.numbered(reading.methods("step")):
        name = stepped(reading, call)
        sink = made.get(reading.key(name, call.scope)) if name and call.loops else None
        if sink is None or any(zeroes(reading, zero, name, call) for zero in zeros):
            continue
        shared = any(owners[sink] & owners[n] for n in owners if n != sink)
        backward = any(
            n < number and reading.calls[n].loops == call.loops for n in reading.backwards
        )
        if owners[sink] and not shared and backward:
            yield Match(call.span, f"{name} steps without zero_grad(), and others have one")


def _root(name: str) -> str:
    """The network that a part belongs to: net of net.head, self.net of self.net.head."""
    parts = name.split(".")
    held = parts[0] == "self" or (parts[1:2] and parts[1].startswith(MARK))
    return ".".join(parts[: 2 if held else 1])


def _is_passed(reading: Training, name: str, call: Call) -> bool:
    """A parameter that a call in the file gives an optimizer which the file makes."""
    function = reading.function(call.scope)
    if not call.scope or not evaluate.is_parameter(reading, call.scope, name):
        return False
    for site in reading.named(function.name):
        value = evaluate.argument_of(reading, site, call.scope, name)
        if value is not None and value.kind == "name" and _is_made(reading, value.name, site):
            return True
    return False


def _is_given(reading: Training, name: str, call: Call) -> bool:
    """A parameter of a function that other files call, and nothing in its loop gets it."""
    given = evaluate.is_parameter(reading, call.scope, name) and "opt" in name
    if any(other.args for other in reading.named(reading.function(call.scope).name)):
        return False
    return given


def _is_handed_on(reading: Training, name: str, call: Call) -> bool:
    """Something in the loop gets the optimizer, and may zero its gradients."""
    return any(
        name in (value.name, *(item.name for item in value.items))
        for each in (reading.calls[n] for n in reading.by_loop[call.loops[-1]])
        if each.method not in ("step", "unscale_")
        for value in each.values
    )


def zeroes(reading: Training, zero: Call, name: str, step: Call) -> bool:
    """The gradients are those that the optimizer applies."""
    key = reading.key(zero.receiver, zero.scope)
    if key == reading.key(name, step.scope):
        return True
    made = {n for n in reading.optimizers if name in reading.calls[n].targets}
    return any(each.sink in made and key in each.lineage.names for each in reading.trained)


def stepped(reading: Training, call: Call) -> str:
    """The optimizer that optimizer.step() or scaler.step(optimizer) applies."""
    if "scaler" in call.receiver.casefold():
        return call.args[0].name if call.args and call.args[0].kind == "name" else ""
    return call.receiver if not call.args and is_optimizer(reading, call) else ""


def _makes_optimizer(reading: Training, name: str, call: Call) -> bool:
    """The name holds an optimizer that this file makes, or a wrapper of one."""
    for each in reading.assigned_to(name, call.scope):
        if each.value.kind != "call":
            continue
        made = reading.calls[each.value.call]
        if each.value.call in reading.optimizers:
            return True
        if any(_is_made(reading, part.name, made) for part in made.args[:1] if part.name):
            return True
    return False


def _is_made(reading: Training, name: str, call: Call) -> bool:
    return any(
        each.value.kind == "call" and each.value.call in reading.optimizers
        for each in reading.assigned_to(name, call.scope)
    )


RULES = (
    Rule(
        code="SCR152",
        slug="zero-grad-missing",
        title="Gradients are set to zero between steps",
        severity="fail",
        find=zero_grad_missing,
        why="backward() adds to the gradients. Without zero_grad() every step applies the sum of "
        "all gradients so far.",
        fires=(
            "backward() and optimizer.step() in a loop, and no zero_grad in the file",
            "the same, and every zero_grad() is outside of that loop",
            "one of several optimizers has none, and the others do",
            "the same of an optimizer that a function is given (a warning)",
        ),
        fix="Call optimizer.zero_grad(set_to_none=True) once per step.",
        sources=("ps-P4",),
    ),
)
