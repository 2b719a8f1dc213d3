"""Losses that are written out of decisions: nothing of the output reaches them but its argmax."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import TRUE, words
from doctor.checks.script.outcomes import VIEWS
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Span, Value

DECISIONS = {"argmax", "argmin", "one_hot", "argsort", "bincount", "round"}
"""What has no gradient, whatever it is taken of."""
ARITHMETIC = VIEWS | {
    "sum", "mean", "prod", "clamp", "clamp_min", "pow", "square", "abs", "mul", "add", "sub", "div",
    "where", "stack", "cat", "max", "min", "amax", "amin", "log", "exp", "sqrt", "logical_and",
    "logical_or", "eq", "ne", "gt", "ge", "lt", "le", "bool", "sum_", "scatter_", "scatter",
}  # fmt: skip
MADE = {"zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "arange"}
DATA = TRUE | {"y", "mask", "masks", "onehot", "hot", "ys", "lbl", "seg", "annotation"}
BATCH = {"batch", "sample", "data", "item", "row", "example", *TRUE}
NUMBERS = re.compile(r"(?:self\.)?(?:smooth\w*|eps\w*|classes|n_?classes|num_classes)$")
DEPTH = 24


def written_decisions(reading: Training) -> Iterator[Match]:
    """loss = 1 - overlap of F.one_hot(logits.argmax(1)), in a loop or in a module of this file."""
    if not (reading.backwards or reading.functions_by_name.get("training_step")):
        return
    if not reading.methods("argmax", "round"):
        return
    for name, scope, position, arms in _losses(reading):
        seen: list[Span] = []
        value = Value("name", name=name)
        if _constant(reading, value, scope, position, arms, seen, DEPTH) and seen:
            yield Match(seen[0], "the loss is made of decisions alone: it has no gradient")


def _losses(reading: Training) -> Iterator[tuple[str, int, int, Arms]]:
    for number, call in reading.numbered(reading.backwards):
        if name := reading.loss_name(call):
            yield name, call.scope, number, call.arms
    for scope in reading.functions_by_name.get("training_step", ()):
        function = reading.function(scope)
        for value, (position, arms) in zip(function.returns, function.exits, strict=True):
            entry = evaluate.entry(reading, value, "loss") or value
            if entry.kind == "name":
                yield entry.name, scope, position, arms


def _constant(
    reading: Training, value: Value, scope: int, position: int, arms: Arms,
    seen: list[Span], depth: int,
) -> bool:  # fmt: skip
    """Nothing in a value has a gradient; `seen` gets the places of the decisions in it."""
    if not depth:
        return False

    def of(part: Value) -> bool:
        return _constant(reading, part, scope, position, arms, seen, depth - 1)

    if value.kind in ("literal", "test", "slice"):
        return True
    if value.kind == "call":
        return _of_call(reading, value.call, seen, depth)
    if value.kind == "name":
        return _of_name(reading, value.name, scope, position, arms, seen, depth)
    if value.kind == "item" and value.items:
        key = words(render(reading, value.items[-1]).strip("'"))
        entry = BATCH & {*words(render(reading, value.items[0]))} and DATA & {*key}
        return bool(entry) or of(value.items[0])
    return value.kind in ("other", "list", "choice") and bool(value.items) and all(
        map(of, value.items)
    )  # fmt: skip


def _of_name(
    reading: Training, name: str, scope: int, position: int, arms: Arms,
    seen: list[Span], depth: int,
) -> bool:  # fmt: skip
    held = reading.assigned_to(name, scope)
    given = [p.name for p in reading.function(scope).parameters if p.name != "self"]
    if NUMBERS.match(name) or (DATA & {*words(name)} and not held and name not in given[:1]):
        return True
    if not held or any(a.augmented for a in held) or f"{name}[]" in reading.script.identifiers:
        return False
    found = evaluate.definitions(reading, name, scope, position, arms)
    return bool(found) and all(
        a.scope == scope
        and a.position <= position
        and _constant(reading, a.value, scope, a.position - 1, a.arms, seen, depth - 1)
        for a in found
    )


def _of_call(reading: Training, number: int, seen: list[Span], depth: int) -> bool:
    call = reading.calls[number]
    if call.method in DECISIONS:
        seen.append(call.span)
        return True
    if call.name.startswith("torch.") and call.method in MADE:
        return True
    inner = objects.operand(call)
    if call.method in ARITHMETIC and inner is not None:
        parts = [inner, *(v for v in call.args if v is not inner and v.kind != "literal")]
        sizes = call.method in VIEWS or call.method in ("sum", "mean", "prod")
        return all(
            _constant(reading, v, call.scope, number, call.arms, seen, depth - 1)
            for v in (parts[:1] if sizes else parts)
        )
    function = entered(reading, number)
    if function is None:
        return False
    each = reading.function(function)
    return bool(each.returns) and all(
        _constant(reading, value, function, position, arms, seen, depth - 1)
        for value, (position, arms) in zip(each.returns, each.exits, strict=True)
    )


def entered(reading: Training, number: int) -> int | None:
    """The function of this file that a call enters, or the forward of its class of a loss."""
    call = reading.calls[number]
    function = reading.target_function(call)
    if function is not None:
        return function
    made = objects.callee(reading, call)
    owners = {each.name for each in made if each is not None}
    if len(owners) != 1 or None in made:
        return None
    return objects.method_of(reading, owners.pop(), "forward")
