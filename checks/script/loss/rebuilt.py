"""Losses that are made anew as tensors without a graph, here or in what returns them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

REBUILT = ("torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.Tensor",
           "torch.autograd.Variable")  # fmt: skip


REDUCES = {"mean", "sum", "to", "cuda", "max", "min", "float", "view", "reshape", "squeeze",
           "unsqueeze", "flatten"}  # fmt: skip
OF_TORCH = re.compile(r"torch\.nn\.(?:\w+Loss|functional\.(?:\w+_loss|\w*cross_entropy\w*))")
"""Losses without parameters of their own."""


def loss_rebuilt(reading: Training) -> Iterator[Match]:
    for number in reading.backwards:
        call = reading.calls[number]
        name = reading.loss_name(call)
        values = objects.last_definition(reading, name, call) if name else []
        if not name and call.receiver_call >= 0:
            name, values = "the loss", [Value("call", call=call.receiver_call)]
        values = [inner for each in values for inner in _returned(reading, each)]
        if values and all(_starts_graph(reading, each, call) for each in values):
            message = f"{name} starts a graph of its own: nothing before it gets gradients"
            yield Match(call.span, message)


def _returned(reading: Training, value: Value) -> list[Value]:
    """What a function or a module of this file returns as the loss; else the value itself."""
    inner, index = value, None
    if value.kind == "item" and len(value.items) == 2:
        inner, index = value.items[0], value.items[1].literal
    call = reading.call_of(inner)
    function = _entered(reading, call) if call is not None else None
    if function is None:
        return [value]
    found: list[Value] = []
    entered = reading.function(function)
    for each, (position, arms) in zip(entered.returns, entered.exits, strict=True):
        parts = each.items if each.kind == "list" and isinstance(index, int) else (each,)
        part = parts[index if isinstance(index, int) and index < len(parts) else 0]
        grows = any(
            a.augmented and a.target == part.name and a.scope == function
            for a in reading.assignments
        )
        held = evaluate.definitions(reading, part.name, function, position, arms)
        found += [part] if part.kind != "name" or grows else [a.value for a in held]
    return found or [value]


def _entered(reading: Training, call: Call) -> int | None:
    """The function of this file that a call runs, also the forward() of a module."""
    made = {each.name if each is not None else "" for each in objects.callee(reading, call)}
    owner = made.pop() if len(made) == 1 else ""
    if owner in reading.modules:
        return objects.method_of(reading, owner, "forward")
    return reading.target_function(call)


def _starts_graph(reading: Training, value: Value, call: Call, depth: int = 4) -> bool:
    if value.kind == "name" and depth:
        held = objects.last_definition(reading, value.name, call)
        return bool(held) and all(
            v.kind == "call" and _starts_graph(reading, v, call, depth - 1) for v in held
        )
    if value.kind != "call" or not depth:
        return False
    made = reading.calls[value.call]
    if made.method in REDUCES:
        inner = objects.operand(made)
        return inner is not None and _starts_graph(reading, inner, made, depth - 1)
    if _is_loss(reading, made):
        return _starts_graph(reading, made.args[0], made, depth - 1)
    wants = made.keywords.get("requires_grad")
    if made.method == "requires_grad_" and made.receiver_call >= 0:
        below = reading.calls[made.receiver_call]
        return below.name in REBUILT or below.method in ("detach", "item")
    return made.name in REBUILT and wants is not None and wants.literal is True


def _is_loss(reading: Training, made: Call) -> bool:
    """torch's loss of an output that is made anew in each iteration and a target of the loop,
    where the optimizers have the parameters of others and nothing reads the gradient itself."""
    if len(made.args) != 2 or not made.loops or "grad" in reading.script.identifiers:
        return False
    target = made.args[1]
    bound = {name for loop in made.loops for name in reading.script.loops[loop].targets}
    anew = {each.target for each in reading.assignments if each.scope == made.scope}
    if target.kind != "name" or target.name not in bound - anew:
        return False
    makers = objects.callee(reading, made)
    names = [each.name if each is not None else "" for each in makers] or [made.name]
    if any(OF_TORCH.fullmatch(name) is None for name in names):
        return False
    value = made.args[0]
    while value.kind == "call" and (inner := objects.operand(reading.calls[value.call])):
        value = inner
    output = evaluate.definitions_at(reading, value.name, made) if value.name else []
    first = [reading.calls[n].first for n in reading.optimizers]
    held = [reading.call_of(each) if each is not None else None for each in first]
    return (
        bool(held)
        and all(each is not None and each.method == "parameters" for each in held)
        and all(each.loops == made.loops for each in output)
    )
