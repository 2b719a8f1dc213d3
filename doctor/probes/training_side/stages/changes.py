"""A training with one thing changed: what the diagnosis varies to find the cause of a fault.

Each change starts from the original training; changes do not accumulate.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Tuple

import torch

from ..foreign import containers
from ..subject import training_step
from ..subject.plan import Plan
from ..subject.subjects import NotPossible
from ..subject.timed import Timed
from ..subject.training_step import Subject
from . import repairs

OTHER_BATCH = 22
RATES = {"lower-lr": 0.1, "lowest-lr": 1e-4, "no-lr": 0.0}
"""Change -> the factor of the learning rate."""
OFF: Dict[str, Tuple[str, ...]] = {
    "cudnn-off": ("cudnn",),
    "flash-off": ("cudnn", "flash"),
    "math": ("cudnn", "flash", "mem_efficient"),
}
"""Attention kernels that a change switches off. With flash alone off, cuDNN might step in."""
CUDNN_DEVICES = ("cuda",)
SWITCHED_DEVICES = ("cuda", "cpu")
"""Devices whose attention obeys torch.backends.cuda's switches; the CPU has flash and math."""

REPAIRS = {
    "valid-batch": repairs.with_valid_batch,
    "valid-index": repairs.with_valid_batch,
    "finite-weights": repairs.with_finite_weights,
    "other-weights": repairs.with_other_weights,
}
"""Changes of the batch or the weights."""


def attempt(stage: Timed, plan: Plan, change: str) -> Dict[str, Any]:
    """The training with this change, as sections.Smoke has it. Raises NotPossible."""
    with contextlib.ExitStack() as undo:
        make, changed = varied(plan, change, undo)
        how = (changed.device, changed.precision, changed.recipe, changed.lr)
        wanted = changed.subject.get("in_turn") or training_step.STEPS
        return training_step.run(stage, make, *how, wanted=wanted)


def varied(
    plan: Plan, change: str, undo: contextlib.ExitStack
) -> Tuple[Callable[[], Subject], Plan]:
    """The builder of the changed subject, and its plan; `undo` restores the switches."""
    if change in OFF:
        return lambda: _without_kernels(plan, OFF[change], undo), plan
    if change == "fp32-weights":
        return lambda: _with_fp32_weights(plan), plan._replace(recipe="amp")
    if change == "fp32":
        changed = plan._replace(precision="fp32", recipe="amp")
        return lambda: _in_fp32(plan), changed
    if change in RATES:
        factor = RATES[change]
        return lambda: _with_lower_rate(plan, factor), plan._replace(lr=plan.lr * factor)
    if change in REPAIRS:
        repair = REPAIRS[change]
        return lambda: repair(plan.build(), plan.subject), plan
    builds: Dict[str, Dict[str, Any]] = {
        "repeat": {},
        "eager": {"eager": True},
        "other-batch": {"seed": OTHER_BATCH},
    }
    changes = builds[change]
    return lambda: plan.build(**changes), plan


def _without_kernels(plan: Plan, backends: Tuple[str, ...], undo: contextlib.ExitStack) -> Subject:
    """The unchanged subject, with these attention kernels off once its own code has run."""
    if plan.device.type not in SWITCHED_DEVICES:
        raise NotPossible("torch has no such switches for %s" % plan.device.type)
    if backends == OFF["cudnn-off"] and (
        plan.device.type not in CUDNN_DEVICES or torch.version.hip
    ):
        raise NotPossible("cuDNN attention runs on NVIDIA GPUs only")
    subject = plan.build()
    switched = [_switch(name, False, undo) for name in backends]
    if not any(switched):
        raise NotPossible("already off")
    if backends == OFF["math"]:
        _switch("math", True, undo)
    return subject


def _switch(backend: str, on: bool, undo: contextlib.ExitStack) -> bool:
    """Set one of torch's switches; True if that changed it. torch before 2.4 has none for cuDNN."""
    enabled = getattr(torch.backends.cuda, backend + "_sdp_enabled", None)
    if enabled is None or bool(enabled()) == on:
        return False
    enable = getattr(torch.backends.cuda, "enable_%s_sdp" % backend)
    undo.callback(enable, not on)
    enable(on)
    return True


def _with_lower_rate(plan: Plan, factor: float) -> Subject:
    """The unchanged subject; the learning rates of the user's own optimizer are lowered."""
    subject = plan.build()
    if subject.update is not None:
        subject.update.scale(factor)
    return subject


def _with_fp32_weights(plan: Plan) -> Subject:
    """The subject with the same weights in fp32."""
    subject = plan.build()
    if not _narrow(subject.module):
        raise NotPossible("the weights are already fp32")
    return subject._replace(module=subject.module.float())


def _in_fp32(plan: Plan) -> Subject:
    subject = plan.build()
    if plan.precision == "fp32" and not _narrow(subject.module):
        raise NotPossible("it is already fp32")
    batch = containers.mapped(subject.batch, lambda x: x.float() if _is_narrow(x) else x)
    return subject._replace(module=subject.module.float(), batch=batch)


def _narrow(module: torch.nn.Module) -> bool:
    return any(_is_narrow(weight) for weight in module.parameters())


def _is_narrow(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() < 4
