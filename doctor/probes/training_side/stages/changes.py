"""A training with one thing changed: what the diagnosis varies to find the cause of a fault.

Each change starts from the original training; changes do not accumulate.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, NamedTuple, Tuple

import torch

from ..foreign import containers, observing
from ..subject import build, training_step
from ..subject.subjects import NotPossible
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
    "finite-weights": repairs.with_finite_weights,
    "other-weights": repairs.with_other_weights,
}
"""Changes of the batch or the weights."""
BUILT_BEFORE = "_doctor_built"
"""Attribute set on every parameter that was built in this process."""


class Stale(Exception):
    """The user's code returned a model that may already have been trained: use a new process."""


def mark(module: torch.nn.Module) -> None:
    """Mark the parameters as built in this process."""
    for weight in module.parameters():
        setattr(weight, BUILT_BEFORE, True)


class Plan(NamedTuple):
    """One training: what is built, and how it runs."""

    subject: Dict[str, Any]
    device: torch.device
    precision: str
    recipe: str
    lr: float

    def build(self, **changes: Any) -> Any:
        """The subject, initialized as in a fresh process. Raises Stale if it is not a fresh one."""
        training_step.free_memory(self.device)
        subject = build.build(self.subject, self.device, self.recipe, **changes)
        if any(observing.has(weight, BUILT_BEFORE) for weight in subject.module.parameters()):
            raise Stale
        mark(subject.module)
        return subject

    def training(self, subject: Any) -> Any:
        return training_step.Training(subject, self.device, self.precision, self.recipe, self.lr)


def read_plan(request: Dict[str, Any]) -> Plan:
    """The training described by a request; the small model by default."""
    return Plan(
        request.get("subject", {"kind": "small"}),
        torch.device(request["device"]),
        request["precision"],
        request["recipe"],
        request.get("lr", training_step.LR),
    )


def attempt(stage: Any, plan: Plan, change: str) -> Dict[str, Any]:
    """The training with this change, as sections.Smoke has it. Raises NotPossible."""
    with contextlib.ExitStack() as undo:
        make, changed = varied(plan, change, undo)
        how = (changed.device, changed.precision, changed.recipe, changed.lr)
        return training_step.run(stage, make, *how)


def varied(plan: Plan, change: str, undo: contextlib.ExitStack) -> Tuple[Callable[[], Any], Plan]:
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


def _without_kernels(plan: Plan, backends: Tuple[str, ...], undo: contextlib.ExitStack) -> Any:
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


def _with_lower_rate(plan: Plan, factor: float) -> Any:
    """The unchanged subject; the learning rates of the user's own optimizer are lowered."""
    subject = plan.build()
    if subject.update is not None:
        subject.update.scale(factor)
    return subject


def _with_fp32_weights(plan: Plan) -> Any:
    """The subject with the same weights in fp32."""
    subject = plan.build()
    if not _narrow(subject.module):
        raise NotPossible("the weights are already fp32")
    return subject._replace(module=subject.module.float())


def _in_fp32(plan: Plan) -> Any:
    subject = plan.build()
    if plan.precision == "fp32" and not _narrow(subject.module):
        raise NotPossible("it is already fp32")
    batch = containers.mapped(subject.batch, lambda x: x.float() if _is_narrow(x) else x)
    return subject._replace(module=subject.module.float(), batch=batch)


def _narrow(module: torch.nn.Module) -> bool:
    return any(_is_narrow(weight) for weight in module.parameters())


def _is_narrow(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() < 4
