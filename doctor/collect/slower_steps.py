"""The same steps at lower learning rates, where the loss grows without bound, or does not come back
to its first value."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from doctor.collect.children import fit
from doctor.collect.torch_child import ReportProgress, TorchChild
from doctor.facts.loss_trend import stays_above
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Smoke

RATES = {"lower-lr": 0.1, "lowest-lr": 1e-4}
"""Changes of the probe `changes.py`, and the share of the learning rate."""
GROWTH = 100.0
"""Times the first loss: what SMK006 judges."""
SECONDS = 60.0


def with_slower_steps(
    child: TorchChild, own: OwnModel, request: dict[str, Any], report_progress: ReportProgress
) -> OwnModel:
    """The record with the losses at lower rates, the first of which ends the growth."""
    if own.smoke is None or not own.smoke.completed:
        return own
    above = own.trend is not None and stays_above(own.trend)
    if not (above or _grows(own.smoke)):
        return own
    slower = []
    for change, share in RATES.items():
        report_progress(f"training at {share:g} of the learning rate")
        child.end()  # a new process, free of side effects of the first steps
        answer = child.request(SECONDS, **request | {"stage": "attempt", "change": change})
        content = (answer.answer or {}).get("attempt")
        smoke = fit(content.get("smoke"), Smoke) if isinstance(content, dict) else None
        if not isinstance(smoke, Smoke):
            break
        slower.append((share, tuple(step.loss for step in smoke.steps)))
        if not (_rises(smoke) if above else _grows(smoke)):
            break
    return msgspec.structs.replace(own, slower=tuple(slower))


def _rises(smoke: Smoke) -> bool:
    losses = [float(step.loss) for step in smoke.steps]
    return not all(map(math.isfinite, losses)) or losses[-1] > losses[0]


def _grows(smoke: Smoke) -> bool:
    losses = [float(step.loss) for step in smoke.steps]
    if not losses or not all(map(math.isfinite, losses)):
        return False
    return max(map(abs, losses)) > GROWTH * max(1.0, abs(losses[0]))
