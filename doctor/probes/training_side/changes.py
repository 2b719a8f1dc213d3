"""A training with one thing changed: what the doctor varies to find the cause of a fault.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
Each change starts from the training as it was asked for; they do not add up.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, NamedTuple, Tuple

import torch
import wire

training_step = wire.sibling("training_step")
subjects = wire.sibling("subjects")

NotPossible = subjects.NotPossible

FRESH_SEED = 67280421310721
"""What torch's generators start with: code that draws without a seed draws the same again."""
OTHER_BATCH = 22
RATE = 0.1
OFF: Dict[str, Tuple[str, ...]] = {
    "cudnn-off": ("cudnn",),
    "flash-off": ("cudnn", "flash"),
    "math": ("cudnn", "flash", "mem_efficient"),
}
"""Attention kernels that a change switches off. With flash alone off, cuDNN might step in."""
CUDNN_DEVICES = ("cuda",)
SWITCHED_DEVICES = ("cuda", "cpu")
"""Devices whose attention heeds torch.backends.cuda's switches; the CPU has flash and math."""


SEEN = "_doctor_built"
"""Attribute of a parameter that was built before in this process."""


class Stale(Exception):
    """The user's code gave a model again that may have been trained on: ask in a new process."""


class Plan(NamedTuple):
    """One training as it is asked for: what is built, and how it runs."""

    subject: Dict[str, Any]
    device: torch.device
    precision: str
    recipe: str
    lr: float

    def build(self, **changes: Any) -> Any:
        """The subject, drawn as in a fresh process. Raises Stale where it is not a fresh one."""
        training_step.freed(self.device)
        torch.manual_seed(FRESH_SEED)
        built = subjects.build(self.subject, self.device, self.recipe, **changes)
        weights = list(built.module.parameters())
        if any(hasattr(weight, SEEN) for weight in weights):
            raise Stale
        for weight in weights:
            setattr(weight, SEEN, True)
        return built

    def training(self, subject: Any) -> Any:
        return training_step.Training(subject, self.device, self.precision, self.recipe, self.lr)


def plan(request: Dict[str, Any]) -> Plan:
    """The training that a request describes; the small model by default."""
    return Plan(
        request.get("subject", {"kind": "small"}),
        torch.device(request["device"]),
        request["precision"],
        request["recipe"],
        request.get("lr", training_step.LR),
    )


def attempt(stage: Any, asked: Plan, change: str) -> Dict[str, Any]:
    """The training with this change, as sections.Smoke has it. Raises NotPossible."""
    with contextlib.ExitStack() as undo:
        make, runs = varied(asked, change, undo)
        told = training_step.run(stage, make, runs.device, runs.precision, runs.recipe, runs.lr)
        return told  # type: ignore[no-any-return]


def varied(asked: Plan, change: str, undo: contextlib.ExitStack) -> Tuple[Callable[[], Any], Plan]:
    """What builds the subject, and how it runs then; `undo` puts switches back."""
    if change in OFF:
        return lambda: _without(asked, OFF[change], undo), asked
    if change == "fp32-weights":
        return lambda: _widened(asked), asked._replace(recipe="amp")
    if change == "fp32":
        runs = asked._replace(precision="fp32", recipe="amp")
        return lambda: _all_widened(asked), runs
    if change == "lower-lr":
        return asked.build, asked._replace(lr=asked.lr * RATE)
    builds: Dict[str, Dict[str, Any]] = {
        "repeat": {},
        "eager": {"eager": True},
        "other-batch": {"seed": OTHER_BATCH},
    }
    changes = builds[change]
    return lambda: asked.build(**changes), asked


def _without(asked: Plan, backends: Tuple[str, ...], undo: contextlib.ExitStack) -> Any:
    """The subject as it is, and these attention kernels off once its own code has run."""
    if asked.device.type not in SWITCHED_DEVICES:
        raise NotPossible("torch has no such switches for %s" % asked.device.type)
    if backends == OFF["cudnn-off"] and (
        asked.device.type not in CUDNN_DEVICES or torch.version.hip
    ):
        raise NotPossible("cuDNN attention runs on NVIDIA GPUs only")
    subject = asked.build()
    switched = [_switch(name, False, undo) for name in backends]
    if not any(switched):
        raise NotPossible("off already")
    if backends == OFF["math"]:
        _switch("math", True, undo)
    return subject


def _switch(backend: str, on: bool, undo: contextlib.ExitStack) -> bool:
    """Set one of torch's switches; whether that changed it. torch before 2.4 has none for cuDNN."""
    enabled = getattr(torch.backends.cuda, backend + "_sdp_enabled", None)
    if enabled is None or bool(enabled()) == on:
        return False
    enable = getattr(torch.backends.cuda, "enable_%s_sdp" % backend)
    undo.callback(enable, not on)
    enable(on)
    return True


def _widened(asked: Plan) -> Any:
    """The subject with the same values in fp32 weights."""
    subject = asked.build()
    if not _narrow(subject.module):
        raise NotPossible("the weights are fp32 already")
    return subject._replace(module=subject.module.float())


def _all_widened(asked: Plan) -> Any:
    subject = asked.build()
    if asked.precision == "fp32" and not _narrow(subject.module):
        raise NotPossible("it is fp32 already")
    batch = subjects.mapped(subject.batch, lambda x: x.float() if _is_narrow(x) else x)
    return subject._replace(module=subject.module.float(), batch=batch)


def _narrow(module: torch.nn.Module) -> bool:
    return any(_is_narrow(weight) for weight in module.parameters())


def _is_narrow(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() < 4
