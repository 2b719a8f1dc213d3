"""The cause of an error that was raised and its remedy, from what was observed there."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.training.errors import (
    losses,
    no_loss,
    observations,
    shapes,
    types,
    updates,
)
from doctor.checks.training.errors.explanation import Explanation
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Operand, Raised

EXPLAINERS: tuple[Callable[[Raised], Explanation | None], ...] = (
    observations.explain,
    updates.explain,
    types.explain,
    losses.explain,
    shapes.explain,
)
MOST = 5
"""Arguments in a summary."""
LOSSES = re.compile(r"loss|entropy")


def explain(own: OwnModel) -> Explanation | None:
    """What the first explainer says about the error; None if it is not explained."""
    if own.raised is None:
        return None
    if explanation := no_loss.explain(own):
        return explanation
    for explainer in EXPLAINERS:
        if explanation := explainer(own.raised):
            return explanation
    return None


def describe(own: OwnModel) -> str:
    """The module and the call with its arguments, as clauses that begin with a semicolon."""
    raised = own.raised
    if raised is None:
        return ""
    clauses = [_module(raised), _call(raised)]
    if LOSSES.search(raised.function) and own.batch:
        shapes = ", ".join(f"{each.name} {list(each.shape)}" for each in own.batch[:MOST])
        clauses.append(f"the batch has {shapes}")
    return "".join(f"; {each}" for each in clauses if each)


def _module(raised: Raised) -> str:
    if raised.module:
        return f"in module {raised.module}, {raised.module_type}"
    return f"in {raised.module_type}" if raised.module is None and raised.module_type else ""


def _call(raised: Raised) -> str:
    """The function with its arguments, without those that say nothing."""
    if not raised.function:
        return ""
    of_torch = any(each.shape is not None for each in raised.operands)
    telling = [
        each
        for each in raised.operands
        if (each.shape is not None if of_torch else each.value not in ("None", ""))
        and each.name not in ("bias", "memo", "_nil", "args", "kwargs")
    ]
    if not telling:
        return ""
    function = raised.function.removesuffix(".__init__").removesuffix(".forward")
    return f"{function} got {', '.join(show(each) for each in telling[:MOST])}"


def show(operand: Operand) -> str:
    """ "weight [5, 1568] float32 (head.weight)"."""
    name = operand.name.strip()
    value = operand.value or operand.kind
    if operand.shape is not None:
        value = f"{list(operand.shape)} {operand.dtype}"
    parameter = operand.parameter if operand.parameter.rpartition(".")[2] != name else ""
    end = f" ({parameter})" if parameter else ""
    return f"{name} {value}{end}".strip()
