"""The fault of a training, by its numbers: what a bisection looks for the cause of."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from doctor.facts.diagnosis import Fault
from doctor.facts.error_texts import NO_CPU_KERNEL
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Smoke, Step, without_gradient

MOST_SKIPPED = 10
"""Steps that an fp16 GradScaler may skip while it calibrates."""


def fault_of(smoke: Smoke, expect_no_grad: Sequence[str] = ()) -> Fault | None:
    """The fault, by the same rules as SMK001 to SMK003; None if there is none.

    `expect_no_grad` are patterns of parameters that need no gradient.
    """
    if ended := next((stage.ended for stage in smoke.stages if not stage.ended.ok), None):
        if ended.how == "budget":
            return None
        earlier = (fault_of_step(step) for step in smoke.steps)
        if fault := next((f for f in earlier if f and f.startswith("non-finite")), None):
            return fault
        faults: dict[str, Fault] = {"signal": "crashed", "timeout": "hung"}
        return faults.get(ended.how, "raised")
    in_steps = (fault_of_step(step) for step in smoke.steps)
    fault = next((fault for fault in in_steps if fault is not None), None)
    return fault or _fault_of_gradients(smoke, expect_no_grad)


def missing_cpu_kernel(own: OwnModel) -> str:
    """The error of the last stage, if oneDNN has no kernel for a layer in the dtype that it got."""
    last = own.smoke.stages[-1].ended.detail if own.smoke and own.smoke.stages else ""
    return last.partition(". ")[0] if NO_CPU_KERNEL in last else ""


DTYPES = re.compile(r"\bdtypes?\b|scalar types?\b|\b(?:BFloat16|Half)\b")
"""Words of errors about two dtypes that do not fit, or one that a function does not take."""


def has_dtype_error(own: OwnModel) -> bool:
    """Whether a step raised an error of dtypes."""
    last = own.smoke.stages[-1].ended if own.smoke and own.smoke.stages else None
    return last is not None and last.how == "error" and bool(DTYPES.search(last.detail))


HIDDEN: tuple[Fault, ...] = ("raised", "crashed", "hung", "non-finite loss", "non-finite gradient")
"""Faults of steps in fp32 that count where the same steps complete under the doctor's autocast."""


def fails_without_autocast(own: OwnModel) -> bool:
    """Whether the steps are well, and a pass without autocast, as the user's code asks for none,
    is not; that fp32 takes more memory is no fault."""
    alone = own.without_autocast
    if alone is None or alone.ok or own.half_asked or "out of memory" in alone.detail.lower():
        return False
    return own.smoke is not None and fault_of(own.smoke, ["*"]) is None


def fault_of_step(step: Step) -> Fault | None:
    """The fault in the numbers of one step; None if there is none."""
    if not math.isfinite(float(step.loss)):
        return "non-finite loss"
    if float(step.loss) == 0.0 == float(step.grad_norm):
        return "zero loss"
    if not step.skipped and not math.isfinite(float(step.grad_norm)):
        return "non-finite gradient"
    return None


def _fault_of_gradients(smoke: Smoke, expect_no_grad: Sequence[str]) -> Fault | None:
    skipped = sum(step.skipped for step in smoke.steps)
    if smoke.steps and (skipped == len(smoke.steps) or skipped > MOST_SKIPPED):
        return "non-finite gradient"
    if not all(parameter.finite for parameter in smoke.parameters):
        return "non-finite gradient"
    without = (each.name for each in without_gradient(smoke.parameters))
    if any(not any(fnmatchcase(name, glob) for glob in expect_no_grad) for name in without):
        return "no gradient"
    return None
