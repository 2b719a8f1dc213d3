"""Outputs and penalties that are cut off from their graph before the loss takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls, reaches_backward
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

NEW = (
    "torch.tensor", "torch.as_tensor", "torch.Tensor", "torch.FloatTensor", "torch.from_numpy",
    "torch.autograd.Variable",
)  # fmt: skip
CUTS = ("detach", "numpy", "item", "tolist")
PENALTY = re.compile(r"(?:GeneratorExp|ListComp)<[\w.]+\.(?:named_)?parameters\(\),(?P<item>.*)>")
OFF = re.compile(r"\b\w+\.(?:data\b|detach\(\)|item\(\))")


def cut_off(reading: Training) -> Iterator[Match]:
    yield from _outputs(reading)
    yield from _penalties(reading)


def _outputs(reading: Training) -> Iterator[Match]:
    """criterion(out.detach(), y), out.data, torch.tensor(out)."""
    for number, _ in loss_calls(reading):
        call = reading.calls[number]
        value = evaluate.argument(reading, call, "input", 0)
        if value is None or not reaches_backward(reading, number):
            continue
        how = _how_cut(reading, value, call)
        if how:
            yield Match(call.span, f"the output goes through {how}: no gradient reaches the model")


def _how_cut(reading: Training, value: Value, call: Call, depth: int = 4) -> str:
    """What cuts a value off that a trained network made; "" where nothing does."""
    if not depth:
        return ""
    if value.kind == "name":
        base, _, last = value.name.rpartition(".")
        if last == "data" and base and is_output(reading, Value("name", name=base), call):
            return ".data"
        found = objects.last_definition(reading, value.name, call)
        return _how_cut(reading, found[0], call, depth - 1) if len(found) == 1 else ""
    if value.kind != "call":
        return ""
    made = reading.calls[value.call]
    if made.name in NEW and made.args:
        inner = made.args[0]
        while inner.kind == "call" and reading.calls[inner.call].method in (*CUTS, "cpu"):
            below = objects.operand(reading.calls[inner.call])
            inner = below if below is not None else Value("other")
        return f"{made.name}()" if is_output(reading, inner, made) else ""
    inner = objects.operand(made) or Value("other")
    if made.method in CUTS and not made.args:
        return f".{made.method}()" if is_output(reading, inner, made) else ""
    keeps = made.method in ("squeeze", "view", "reshape", "float", "flatten", "unsqueeze", "to")
    return _how_cut(reading, inner, made, depth - 1) if keeps else ""


def is_output(reading: Training, value: Value, call: Call, depth: int = 3) -> bool:
    """What a network that trains returned, at most viewed in another shape."""
    if value.kind == "name" and depth:
        found = [
            a.value
            for a in evaluate.definitions_at(reading, value.name, call)
            if a.value.kind == "call" and reading.calls[a.value.call] is not call
        ]
        return bool(found) and all(is_output(reading, v, call, depth - 1) for v in found)
    if value.kind != "call":
        return False
    made = reading.calls[value.call]
    return reading.key(made.name, made.scope) in reading.stepped_names


def _penalties(reading: Training) -> Iterator[Match]:
    """sum(p.data.abs().sum() for p in model.parameters()) as a term of the loss."""
    losses = {reading.loss_name(reading.calls[n]) for n in reading.backwards} - {""}
    for each in reading.assignments:
        if each.target not in losses:
            continue
        found = PENALTY.search(render(reading, each.value))
        if found and OFF.search(found["item"]):
            yield Match(each.span, "the penalty is of detached weights: it has no gradient")
        for name in each.value.names:
            for term in reading.assigned_to(name, each.scope):
                over = [reading.loops[n] for n in term.loops]
                weights = any(
                    loop.iterable is not None
                    and loop.target
                    and any(
                        call.method in ("parameters", "named_parameters")
                        for call in reading.inside(loop.iterable)
                    )
                    and OFF.search(render(reading, term.value))
                    for loop in over
                )
                if weights and term.scope == each.scope:
                    yield Match(term.span, f"{name} is of detached weights: it has no gradient")
                    break
