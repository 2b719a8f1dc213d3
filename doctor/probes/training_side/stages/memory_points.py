"""Peak memory of whole steps at two batch sizes, and the size of a first save.

Nothing is written.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
from typing import Any, ContextManager, Dict, List, Optional, Union

import torch

from ... import wire
from ..foreign import Foreign, containers
from ..subject import optimizers, subjects, training_step
from ..subject.training_step import Subject, Training

M_MMAP_THRESHOLD, MAPPED = -3, 1 << 16
"""Of glibc: freed blocks of at least that size are returned to the system. By default it keeps
ever larger ones, so the peak depends more on earlier steps than on this one."""


MAX_SERIALIZED = 1 << 26
"""Up to this many bytes a save is serialized in memory and counted."""


class NotMeasured(Exception):
    """The peak cannot be measured here; the message says why."""


def measure_points(
    spec: Dict[str, Any], subject: Subject, device: torch.device, precision: str, recipe: str
) -> Union[List[Dict[str, Any]], Dict[str, Any]]:
    """Two doctor.facts.own_model.MemoryPoint, or an Unknown; gradients and optimizer included."""
    inside = "a batch of two sizes"
    try:
        batches = two_sizes(spec, subject)
        training = training_step.Training(subject, device, precision, recipe)
        training.before.clear()  # copies that a real training does not hold
        points = []
        for samples, batch in batches.items():
            inside = "%d samples" % samples
            training.subject = subject._replace(batch=batch)
            points.append(
                {
                    "type": "MemoryPoint",
                    "batch": samples,
                    "length": length_of(batch),
                    "peak_bytes": peak(training, device, inside),
                }
            )
    except Exception as error:
        message = str(error) if isinstance(error, NotMeasured) else wire.describe(error)
        return {"type": "Unknown", "reason": "%s: %s" % (inside, message)}
    return points


def two_sizes(spec: Dict[str, Any], subject: Subject) -> Dict[int, Foreign]:
    """Samples -> batch: half of the batch and all of it, or one sample and two copies of it."""
    samples = subjects.first_dimension(subject.batch)
    if not samples:
        raise NotMeasured("the batch has no first dimension that all of its tensors share")

    def sized(count: int) -> Foreign:
        def change(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.dim():
                return tensor
            return torch.cat([tensor, tensor])[:count] if count > samples else tensor[:count]

        return containers.mapped(subject.batch, change)

    return {count: sized(count) for count in ((samples // 2, samples) if samples > 1 else (1, 2))}


def length_of(batch: Foreign) -> Optional[int]:
    """Tokens of a sample: the second dimension of the first tensor of whole numbers."""
    for tensor in containers.tensors(batch).values():
        if tensor.dim() >= 2 and not tensor.is_floating_point():
            return int(tensor.shape[1])
    return None


def peak(training: Training, device: torch.device, what: str) -> int:
    """Peak bytes of one step, after a warm-up step."""

    def stage(name: str) -> ContextManager[None]:
        return wire.stage("%s with %s" % (name, what))

    training.step(stage)
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        training.step(stage)
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device))
    if device.type != "cpu":
        raise NotMeasured("torch does not report the peak on %s" % device.type)
    reset_resident_peak()
    training.step(stage)
    return resident_peak()


def reset_resident_peak() -> None:
    """Reset the peak to the present use, without what the allocator cached in earlier steps."""
    with contextlib.suppress(OSError, AttributeError):  # other C libraries lack these calls
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, MAPPED)
        library.malloc_trim(0)
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError as error:
        message = "this system does not report the peak of a process: %s" % wire.describe(error)
        raise NotMeasured(message) from None


def resident_peak() -> int:
    """Peak of this process's resident memory, including torch itself."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise NotMeasured("/proc/self/status has no VmHWM")


def saved(subject: Subject, spec: Dict[str, Any]) -> Dict[str, int]:
    """Bytes of a first save, as torch.save would write it; with LoRA only the trainable weights."""
    module, weights = subject.module, subject.weights
    with wire.stage("count the bytes of a save"):
        state = weights if spec.get("lora") else module.state_dict()
        update = subject.update
        optimizer = (
            update.optimizer
            if update is not None
            else optimizers.optimizer_of(list(weights.values()), training_step.LR)
        )
        return {
            "saved_weights": size_of(state),
            "saved_optimizer": size_of(_stepped(optimizer, weights)),
        }


def _stepped(optimizer: Foreign, weights: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    """The optimizer's state; before the first step, where torch's class has none, one like it."""
    state: Dict[str, Any] = optimizer.state_dict()
    if not state["state"]:
        moments: List[Any] = [
            {"step": torch.zeros(()), "exp_avg": weight, "exp_avg_sq": weight.detach().clone()}
            for weight in weights.values()
        ]
        state["state"] = dict(enumerate(moments))
    return state


def size_of(state: Foreign) -> int:
    """Bytes of a state; above `MAX_SERIALIZED` the tensors are summed, as writing takes minutes."""
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes()
            for each in containers.tensors(state).values()}  # fmt: skip
    if sum(storages.values()) > MAX_SERIALIZED:
        return sum(storages.values())
    target = io.BytesIO()
    torch.save(state, target)
    return target.tell()
