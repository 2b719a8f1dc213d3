"""What a mask fills attention's scores with: nearly nothing, or more than fp16 holds."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import amp, evaluate
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

LOWEST = -65504.0
"""The lowest number of fp16."""
TINY = 1e-3
"""What is meant as a large number with the wrong sign of its exponent is smaller."""
PRODUCTS = ("torch.matmul", "torch.bmm", "torch.einsum")


def nearly_zero(reading: Training) -> Iterator[Match]:
    """masked_fill(mask, -1e-9): a masked score is as good as any other."""
    chooses = reading.mentions("softmax", "attention", "attn") or reading.methods("max", "amax")
    for call in reading.named("masked_fill", "masked_fill_") if chooses else ():
        value = call.given("value", 1)
        least = value.literal if value is not None else None
        if isinstance(least, float) and -TINY < least < 0:
            message = f"{least:g} is nearly 0: a softmax or maximum still counts masked places"
            yield Match(call.span, message, fix='Fill with float("-inf"), or -1e9.')


def beyond_half(reading: Training) -> Iterator[Match]:
    """scores.masked_fill(mask, -1e9) of a matrix product, which autocast makes fp16."""
    filled = reading.methods("masked_fill", "masked_fill_")
    if not filled or not _in_half(reading):
        return
    for _, call in reading.numbered(filled):
        value = call.given("value", 1)
        least = value.literal if value is not None else None
        if not isinstance(least, int | float) or not float("-inf") < least < LOWEST:
            continue
        inside = reading.function(call.scope).owner in reading.modules
        subject = Value("name", name=call.receiver)
        if call.receiver_call >= 0:
            subject = Value("call", call=call.receiver_call)
        if inside and not call.contexts and _is_half(reading, subject, call):
            message = f"{least:g} is beyond fp16, in which autocast computes these scores: raises"
            yield Match(call.span, message, fix="Fill with torch.finfo(scores.dtype).min.")


def _in_half(reading: Training) -> bool:
    """All autocasts of the file are on, and in fp16."""
    made = reading.methods("autocast")
    return (
        bool(made)
        and set(made) == set(amp.autocasts(reading))
        and not reading.imports_from("deepspeed")
        and all(
            amp.enabled(reading, reading.calls[n]) is True
            and amp.autocast_dtypes(reading, reading.calls[n]) == {"fp16"}
            for n in made
        )
    )


def _is_half(reading: Training, value: Value, at: Call, depth: int = 6) -> bool:
    """A matrix product, scaled by numbers only."""
    if not depth:
        return False
    if value.kind == "name":
        found = evaluate.definitions_at(reading, value.name, at)
        own = [each for each in found if each.scope == at.scope and not each.augmented]
        return len(found) == len(own) == 1 and _is_half(reading, own[0].value, at, depth - 1)
    if value.kind == "call":
        made = reading.calls[value.call]
        inner = Value("call", call=made.receiver_call)
        again = made.method in ("masked_fill", "masked_fill_") and made.receiver_call >= 0
        return made.name in PRODUCTS or (again and _is_half(reading, inner, made, depth - 1))
    if value.kind != "other" or len(value.items) != 2:
        return False
    first, second = value.items
    if value.name in ("Mult", "Div"):
        return _is_half(reading, first, at, depth - 1) and _is_number(reading, second, at)
    return value.name == "MatMult"


def _is_number(reading: Training, value: Value, at: Call) -> bool:
    """8, d ** 0.5, math.sqrt(d), and a name for one of these."""
    if value.kind == "name":
        found = reading.assigned_to(value.name, at.scope)
        return bool(found) and all(
            each.value.kind != "name" and _is_number(reading, each.value, at) for each in found
        )
    if value.kind == "call":
        return reading.calls[value.call].name in ("math.sqrt", "numpy.sqrt")
    return isinstance(value.literal, int | float) or value.name == "Pow"
