"""Formulas of values that were changed before: reduced to a mean, squashed, cut from a table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import render, statements
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call

REDUCES = {"reduction", "reduce", "size_average"}
TANH = r"(?:(?:torch\.(?:nn\.functional\.)?)?tanh\((\w+)\)|(\w+)\.tanh\(\))"
CORRECTION = re.compile(rf"\(1-(?:\({TANH}\*\*2\)|{TANH}\.(?:pow\(2\)|square\(\)))")
SQUASHED = re.compile(r"torch\.(?:nn\.functional\.)?tanh\(.*\)|[\w.]+\.tanh\(\)")


def changed_before(reading: Training) -> Iterator[Match]:
    yield from _focal_of_mean(reading)
    yield from _squashed_twice(reading)


def _held(reading: Training, name: str, scope: int) -> list[Assignment]:
    return [a for a in reading.script.assignments if a.target == name and a.scope == scope]


def _focal_of_mean(reading: Training) -> Iterator[Match]:
    """(1 - exp(-ce)) ** gamma * ce, where ce is the mean of the batch."""
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        name = call.targets[0] if len(call.targets) == 1 else ""
        if kind not in ("cross_entropy", "bce", "bce_logits", "nll") or not name:
            continue
        if len(_held(reading, name, call.scope)) != 1 or not _is_mean(reading, call):
            continue
        own = [(t, s) for t, s, scope in reading.cached(statements) if scope == call.scope]
        likely = "|".join(
            re.escape(a.target) for a in reading.script.assignments
            if a.scope == call.scope
            and re.fullmatch(rf"torch\.exp\(-{name}\)|-{name}\.exp\(\)", render(reading, a.value))
        )  # fmt: skip
        given = rf"(?:{likely}|torch\.exp\(-{name}\))" if likely else rf"torch\.exp\(-{name}\)"
        factor = re.compile(rf"\(1-{given}\)\*\*[\w.]+\)\*{name}\)|\b{name}\*\(\(1-{given}\)\*\*")
        for text, span in own:
            if factor.search(text):
                yield Match(span, f"{name} is the mean of the batch: one factor for all samples")
                break


def _is_mean(reading: Training, call: Call) -> bool:
    """The loss has the reduction that it has by default."""
    if call.unpacked or call.loops or len(call.args) > 3 or REDUCES & call.keywords.keys():
        return False
    if call.name.startswith("torch.nn.functional."):
        return True
    made = objects.callee(reading, call)
    return bool(made) and all(
        m is not None
        and m.name.startswith("torch.nn.")
        and not (m.unpacked or REDUCES & m.keywords.keys())
        for m in made
    )


def _squashed_twice(reading: Training) -> Iterator[Match]:
    """log(1 - tanh(a) ** 2) of a = tanh(u)."""
    for text, span, scope in reading.cached(statements):
        for found in CORRECTION.finditer(text):
            name = next(each for each in found.groups() if each)
            held = _held(reading, name, scope)
            before = [a for a in held if a.span.order < span.order]
            if held == before and held and all(
                SQUASHED.fullmatch(render(reading, a.value)) and not a.augmented for a in held
            ):  # fmt: skip
                yield Match(span, f"{name} is tanh() already: the correction is 1 - {name} ** 2")
