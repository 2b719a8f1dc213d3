"""A rule on functions of autograd that a script writes itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Function, Span, Value

REVERSAL = re.compile(r"revers|(?:^|_)grl", re.IGNORECASE)
CONSTANTS = ("zeros_like", "zeros")
"""What a gradient that is 0 everywhere is made by: it needs no incoming one."""


def own_backward(reading: Training) -> Iterator[Match]:
    for each in reading.script.classes if "test" not in reading.script.path else ():
        if not any(base.endswith("autograd.Function") for base in each.bases):
            continue
        backward = objects.method_of(reading, each.name, "backward")
        if backward is None:
            continue
        yield from _incoming_unused(reading, backward)
        yield from _too_few(reading, backward, objects.method_of(reading, each.name, "forward"))
        if REVERSAL.search(each.name):
            yield from _not_reversed(reading, backward, each.name)


def _returned(reading: Training, scope: int) -> Iterator[tuple[Value, Span]]:
    function = reading.function(scope)
    yield from zip(function.returns, function.exit_spans, strict=False)


def _incoming_unused(reading: Training, scope: int) -> Iterator[Match]:
    """The derivative is returned by itself: nothing of the function reads the gradient."""
    given = _after_context(reading.function(scope))
    if len(given) != 1 or _reads(reading, scope, given[0]):
        return
    for value, span in _returned(reading, scope):
        parts = value.items if value.kind == "list" else (value,)
        if any(_is_derivative(reading, part) for part in parts):
            yield Match(span, f"{given[0]} is not used: the gradient of later layers is lost")
            return


def _after_context(function: Function) -> list[str]:
    """The names of what is given beside the context: behind it, also in a class method."""
    names = [parameter.name for parameter in function.parameters]
    place = next((n for n, name in enumerate(names[:2]) if name in ("ctx", "context")), 0)
    return names[place + 1 :]


def _reads(reading: Training, scope: int, name: str) -> bool:
    """Anything of the function names it, also below an attribute or in a call on its own."""
    inside = reading.values_in(scope)
    inside += [
        loop.iterable for loop in reading.loops if loop.scope == scope and loop.iterable is not None
    ]
    named = {n.partition(".")[0] for v in inside for n in v.all_names}
    receivers = {call.receiver.partition(".")[0] for call in reading.calls_in(scope)}
    changed = {a.target.partition(".")[0] for a in reading.assignments if a.scope == scope}
    return name in named | receivers | changed


def _is_derivative(reading: Training, value: Value) -> bool:
    if value.kind == "literal":
        return False
    called = {reading.calls[n].method for n in (value.call, *value.calls) if n >= 0}
    return not (value.kind == "call" and called & {*CONSTANTS})


def _too_few(reading: Training, scope: int, forward: int | None) -> Iterator[Match]:
    """backward() returns one gradient for each argument of forward()."""
    given = reading.function(forward).parameters if forward is not None else ()
    if forward is None or reading.function(forward).accepts_any or not given:
        return
    if given[0].name not in ("ctx", "context", "self") or _is_open(reading, forward):
        return
    wanted = len(given) - 1
    for value, span in _returned(reading, scope):
        if value.kind == "list" and any(part.kind == "other" for part in value.items):
            continue
        held = evaluate.definitions(reading, value.name, scope, len(reading.calls), ())
        value = held[0].value if value.kind == "name" and len(held) == 1 else value
        plain = value.kind == "other" and value.name in ("Mult", "Add", "Sub", "Div", "USub")
        plain = plain and all(part.kind != "list" for part in flatten([value]))
        count = len(value.items) if value.kind == "list" else 1 if plain else 0
        if count and count < wanted:
            message = f"forward() takes {wanted} arguments, and backward() returns {count} gradient"
            yield Match(span, message + ("s" if count > 1 else ""))


def _is_open(reading: Training, forward: int) -> bool:
    """Parameters such as *tensors, whose number the call decides."""
    owner = reading.function(forward).owner
    applied = [c for c in reading.named("apply") if c.receiver == owner]
    parameters = len(reading.function(forward).parameters) - 1
    return any(call.unpacked or len(call.args) > parameters for call in applied)


def _not_reversed(reading: Training, scope: int, name: str) -> Iterator[Match]:
    """Nothing of the backward of a gradient reversal is negative."""
    inside = reading.values_in(scope)
    parts = list(flatten(inside))
    negative = any(
        part.name in ("USub", "Sub")
        or (
            isinstance(part.literal, int | float)
            and not isinstance(part.literal, bool)
            and part.literal < 0
        )
        for part in parts
    ) or any(call.method.startswith("neg") for call in reading.calls_in(scope))
    for value, span in _returned(reading, scope):
        whole = value.items[0] if value.kind == "list" and value.items else value
        if not negative and whole.kind in ("other", "name", "call"):
            outside = any(
                reading.calls[n].method == "apply" and _negated(reading, n)
                for n in reading.methods("apply")
            )
            if not outside:
                yield Match(span, f"{name} passes the gradient on with its sign: nothing reverses")
            return


def _negated(reading: Training, number: int) -> bool:
    """apply(x, -alpha)."""
    return any(
        part.name == "USub" or (isinstance(part.literal, int | float) and part.literal < 0)
        for part in flatten(reading.calls[number].args)
    )


RULES = (
    Rule(
        code="SCR387",
        slug="own-backward",
        title="The backward() of an own autograd.Function follows the chain rule",
        severity="fail",
        find=own_backward,
        why="backward() gets the gradient of the loss by the output, and returns that by each "
        "input: the local derivative alone drops what later layers say, and a missing one raises.",
        fires=(
            "backward(ctx, grad) of an autograd.Function that returns a derivative and never reads "
            "grad",
            "a backward() that returns fewer values than forward() has arguments",
            "the backward() of a gradient reversal without a minus",
        ),
        fix="return grad * derivative, with None for each argument that needs no gradient; "
        "compare with torch.autograd.gradcheck().",
        sources=("torch-function",),
        limits="that the derivative is right.",
        needs=("Function",),
    ),
)
