"""Updates of the user's own training that do not last, or are too large."""

from __future__ import annotations

from collections.abc import Sequence

from doctor._util.units import listed
from doctor.facts.own_model import Trend
from doctor.facts.training import Parameter, Smoke
from doctor.judge.check import Verdict, fail, warn


def set_back(steps: Smoke, verdict: Verdict, trend: Trend | None) -> Verdict:
    """The verdict on parameters that all differ at the end; a failure if the forward pass discards
    the updates of matrices."""
    discarded = trend.discarded if trend else ()
    lost = [p for p in steps.parameters if p.undone or p.set_back or p.name in discarded]
    if not any((each.dimensions or 0) > 1 for each in lost):
        return verdict
    writes = trend.writes if trend else ()
    where = f"; the forward pass overwrites them: {', '.join(writes)}" if writes else ""
    return fail(
        f"{len(lost)} of {len(steps.parameters)} parameters {_lost(lost)}: "
        f"{listed([each.name for each in lost], 4)}{where}; required: updates stay",
        fix=_writer_fix(writes) if writes else SET_BACK_FIX,
    )


def _lost(parameters: Sequence[Parameter]) -> str:
    """How the forward pass discards updates."""
    if all(each.set_back for each in parameters):
        return "have their initial values again after the next forward pass"
    if all(each.undone or each.set_back for each in parameters):
        return "have the values from before the update again after the next forward pass"
    return "get values in each forward pass that hardly depend on their updates"


def too_long(steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on weights that change; a warning if the first update is far larger than they.

    A single matrix is a linear probe, whose loss has one minimum: rates of 30 are usual there.
    """
    changes = sorted(
        float(each.change)
        for each in steps.parameters
        if (each.dimensions or 0) > 1 and each.change is not None
    )
    middle = changes[(len(changes) - 1) // 2] if len(changes) > 1 else 0.0
    if middle < FAR or not steps.steps or steps.steps[0].lr <= HIGHEST:
        return verdict
    optimizer = steps.optimizer.name if steps.optimizer else "AdamW"
    return warn(
        f"{verdict.summary}; the first update is {middle:.3g} times as large as the weights "
        f"(median of {len(changes)} matrices), at a learning rate of {steps.steps[0].lr:g} of "
        f"{optimizer}; required: less than {FAR:g} times",
        fix="Lower the learning rate: 1e-5 to 1e-3 is usual for Adam, 1e-3 to 1e-1 for SGD.",
    )


FAR, HIGHEST = 10.0, 0.1
"""Our own numbers: usual first updates are a hundredth of the weights, and usual learning rates are
lower; weights that start near 0 change much at those too."""


def _writer_fix(writes: Sequence[str]) -> str:
    if any("renorm" in each for each in writes):
        return RENORM_FIX
    return (
        "Remove what overwrites weights in the forward pass or the loss, or do it once, before the "
        "first step. To train values between bounds, compute them from an unbounded parameter."
    )


RENORM_FIX = (
    "Omit max_norm of the embedding, or normalize its result (torch.nn.functional.normalize): "
    "max_norm writes the weights in each forward pass."
)
SET_BACK_FIX = (
    "Look for code in the forward pass or the loss that writes weights: load_state_dict, copy_, "
    "reset_parameters or torch.nn.init. Call it once, before the first step."
)
