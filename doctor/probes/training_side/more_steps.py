"""More steps on the same batch, after the ones that are judged: does the loss fall, memory grow?

Imported by own_stages.py; standard library and torch only, Python 3.9.
"""

from __future__ import annotations

import ctypes
import gc
import time
from typing import Any, Dict, List, Optional

import torch
import wire

training_step = wire.sibling("training_step")
memory_points = wire.sibling("memory_points")
loss_calls = wire.sibling("loss_calls")
unregistered = wire.sibling("unregistered")

STEPS = 20
"""Steps in all, the judged ones included."""
SECONDS = 2.0
"""No further step is started after this."""
WATCHED = 10
"""Memory is read after each of the last steps only: the first ones fill caches."""


def trend(
    subject: Any, device: torch.device, precision: str, recipe: str, smoke: Dict[str, Any]
) -> Optional[Dict[str, Any]]:
    """A doctor.facts.own_model.Trend; None if a further step raises or training failed before.

    The weights go on from the judged steps, with the doctor's optimizer started again.
    """
    losses = [step["loss"] for step in smoke["steps"]]
    if any(isinstance(loss, str) or step["skipped"] for loss, step in zip(losses, smoke["steps"])):
        return None
    resident: List[int] = []
    fingerprint = training_step.fingerprint
    unmoved = {each["name"] for each in smoke["parameters"] if not each["moved"]}
    still = {name: fingerprint(w) for name, w in subject.weights.items() if name in unmoved}
    deadline = time.monotonic() + SECONDS
    calls, created = loss_calls.LossCalls(), unregistered.Created(subject)
    try:
        training = training_step.Training(created.subject, device, precision, recipe)
        training.before.clear()
        with calls:
            losses.append(training.step(stage)["loss"])
        calls.compare(float(losses[-1]))
        while len(losses) < STEPS and time.monotonic() < deadline:
            losses.append(training.step(stage)["loss"])
            if len(losses) == STEPS - WATCHED:
                gc.collect()
            if len(losses) > STEPS - WATCHED:
                resident.append(in_use(device))
    except Exception:
        return None
    finally:
        for weight in subject.weights.values():
            weight.grad = None
    return {
        "losses": losses,
        "classes": calls.classes[0] if len(set(calls.classes)) == 1 else None,
        "misused": list(calls.misused.values()),
        "supervised": sorted({name for name, _ in calls.results}),
        "resident": resident,
        "reached": [name for name, reached in training.reached.items() if reached],
        "created": created.shapes,
        "moved": [
            name
            for name, value in still.items()
            if not training_step.equal(value, fingerprint(subject.weights[name]))
        ],
    }


def stage(name: str) -> Any:
    return wire.stage("%s in more steps" % name)


def in_use(device: torch.device) -> int:
    """Bytes that the device's allocator holds; on a CPU those of the process, 0 if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * 4096
    except (OSError, AttributeError):
        return 0
