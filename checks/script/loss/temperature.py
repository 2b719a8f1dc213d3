"""A rule on temperatures: logits are divided by them."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.directions import similarities
from doctor.checks.script.naming import words
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

NAMES = {"t", "temp", "temperature", "tau"}
INVERSE = {"inv", "inverse", "reciprocal", "recip", "scale"}
SOFTMAX = ("softmax", "log_softmax", "cross_entropy")


def temperature_multiplied(reading: Training) -> Iterator[Match]:
    """softmax(logits * temperature), with a number that is known."""
    for call in reading.named(*SOFTMAX):
        value = call.first
        options = evaluate.options(reading, value, call)
        if call.receiver and not call.args:  # logits.softmax(-1)
            options = [call.base] if call.base is not None else []
        options = [_below_masks(reading, each, call) for each in options]
        factors = (
            _factor(reading, each, call) or similarities(reading, call, each) for each in options
        )
        factor = next(filter(None, factors), "")
        if factor:
            yield Match(call.span, f"the logits are multiplied by {factor}, not divided")
            return


def _below_masks(reading: Training, value: Value, call: Call, depth: int = 4) -> Value:
    """The product below masked_fill() and names for it."""
    if value.kind == "name" and depth:
        found = evaluate.options(reading, value, call)
        other = len(found) == 1 and found[0] != value
        return _below_masks(reading, found[0], call, depth - 1) if other else value
    made = reading.call_of(value)
    if made is None or not depth or made.method not in ("masked_fill", "masked_fill_"):
        return value
    inner = objects.operand(made)
    return _below_masks(reading, inner, made, depth - 1) if inner is not None else value


def _factor(reading: Training, value: Value, call: Call) -> str:
    """The name of a temperature that the value is multiplied by, "" if by none."""
    if value.name != "Mult":
        return ""
    for each in value.items:
        called = set(words(each.name)) if each.kind == "name" else set()
        if NAMES & called and not INVERSE & called:
            numbers = evaluate.literals(reading, each, call)
            known = [float(n) for n in numbers if isinstance(n, int | float)]
            if known and len(known) == len(numbers) and _is_wrong(reading, known):
                return each.name
    return ""


def _is_wrong(reading: Training, numbers: list[float]) -> bool:
    """Below 1 it was meant to sharpen; above 1 it softens the targets of a distillation.

    A number above 1 without a distillation is the inverse of a temperature by another name.
    """
    soft = reading.methods("kl_div", "KLDivLoss")
    return all(0 < n < 1 for n in numbers) or bool(soft and all(1 < n <= 20 for n in numbers))


RULES = (
    Rule(
        code="SCR338",
        slug="temperature-multiplied",
        title="Logits are divided by the temperature",
        severity="warn",
        find=temperature_multiplied,
        why="A softmax at temperature T is softmax(logits / T). Multiplied, a T of 0.07 makes all "
        "candidates nearly equal, so a contrastive loss hardly teaches, and a T of 4 makes the "
        "teacher's targets hard instead of soft.",
        fires=(
            "softmax, log_softmax or cross_entropy of logits times a temperature below 1, or above "
            "1 beside a KL divergence",
            "cross_entropy(a @ b.t() * 0.07, torch.arange(n))",
        ),
        fix="Divide the logits by the temperature.",
        sources=("distillation",),
        limits="that a temperature whose number another file states is applied rightly.",
        needs=("softmax", "log_softmax", "cross_entropy"),
    ),
)
