"""A rule on losses without a graph."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value
from doctor.facts.script_machine import ScriptMachine

DETACHES = ("item", "detach", "tolist", "numpy")


def loss_detached(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods("backward"):
        call = reading.calls[number]
        if call.name == "backward" or reading.is_autograd(call):
            continue
        name = reading.loss_name(call)
        if call.receiver_call >= 0 and not name:
            inner = reading.calls[call.receiver_call]
            if inner.method in DETACHES:
                yield Match(call.span, f"backward() of .{inner.method}(): no gradient is left")
            continue
        if not name or _regains(reading, name):
            continue
        results = evaluate.definitions(reading, name, call.scope, number, call.arms)
        yield from _numbers_in_sum(reading, call, results[:1])
        if results and all(_detaches(reading, each.value) for each in results):
            method = reading.calls[results[0].value.call].method
            message = f"{name} comes from .{method}(): no gradient is left"
            yield Match(call.span, message)


def _detaches(reading: Training, value: Value) -> bool:
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    return (
        call.method in DETACHES
        and not call.args
        and (call.receiver_call >= 0 or bool(call.receiver))
    )


def _numbers_in_sum(reading: Training, call: Call, results: list[Assignment]) -> Iterator[Match]:
    """Parts of the loss of a loop that are plain numbers."""
    for each in results if call.loops else ():
        for term in _terms(each.value):
            if _is_number(reading, term, call, each.position):
                message = f"{term.name} comes from .item(): it gives {call.receiver} no gradient"
                yield Match(each.span, message, "warn")


def _terms(value: Value) -> Iterator[Value]:
    """What is added up, without a number in front."""
    if value.kind == "other" and value.name in ("Add", "Sub"):
        for item in value.items:
            yield from _summand(item)


def _summand(value: Value) -> Iterator[Value]:
    if value.kind == "other" and value.name in ("Add", "Sub"):
        yield from _terms(value)
    elif value.kind == "other" and value.name == "Mult" and len(value.items) == 2:
        first, second = value.items
        yield from (second,) if first.kind == "literal" else ()
        yield from (first,) if second.kind == "literal" else ()
    else:
        yield value


def _is_number(reading: Training, value: Value, call: Call, position: int) -> bool:
    """A name that only holds the result of .item() of this iteration."""
    if value.kind != "name":
        return False
    found = evaluate.definitions(reading, value.name, call.scope, position, call.arms)
    return bool(found) and all(
        each.value.kind == "call"
        and reading.calls[each.value.call].method == "item"
        and each.loops == call.loops
        for each in found
    )


def _regains(reading: Training, name: str) -> bool:
    """requires_grad is turned on again between."""
    return any(
        each.target == f"{name}.requires_grad" for each in reading.script.assignments
    ) or any(reading.calls[n].receiver == name for n in reading.methods("requires_grad_"))


RULES = (
    Rule(
        code="SCR153",
        slug="loss-detached",
        title="The loss that backward() is called on has a graph",
        severity="fail",
        find=loss_detached,
        why="item(), detach() and numpy() leave no graph: backward() raises 'element 0 of tensors "
        "does not require grad', or is called on a plain number.",
        fires=(
            "backward() on the result of item(), detach(), tolist() or numpy()",
            "a part of the sum that backward() is called on comes from item() (a warning)",
        ),
        fix="Keep the tensor for backward(); detach a copy for the log.",
        sources=("cbl-root",),
    ),
)
