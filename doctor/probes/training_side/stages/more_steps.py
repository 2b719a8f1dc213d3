"""More steps on the same batch, after the ones that are judged: does the loss fall, memory grow?"""

from __future__ import annotations

import ctypes
import gc
import math
import time
from typing import Any, Callable, ContextManager, Dict, List, Optional, Tuple, Union

import torch

from ... import wire
from ..calls import loss_calls, weight_writes
from ..foreign import observing
from ..subject import build, fingerprints, initial_weights, training_step, unregistered
from ..subject.manual_steps import Stepped
from ..subject.training_step import Subject, Training

STEPS = 20
"""Steps in all, the judged ones included."""
SECONDS = 60.0
"""Of all further steps; where that is not enough for STEPS of them, none of them counts, so that no
verdict depends on the speed of the machine."""
STREAM_SECONDS = 2.0
"""More for the pool of streams."""
ROUNDING = 1e-6
"""Of the loss; float32 has 6e-8 beside 1."""
WATCHED = 10
"""Memory is read after each of the last steps only: the first ones fill caches."""

STREAMS = 32
"""Streams in torch's pool; after them `torch.cuda.Stream()` returns the first ones again."""
WORKSPACES = 128 * 2**20
"""Bytes; cuBLAS and cuBLASLt take up to 32 MiB each for a stream. Our own number."""


def trend(
    subject: Subject, device: torch.device, precision: str, recipe: str, smoke: Dict[str, Any]
) -> Optional[Dict[str, Any]]:
    """A doctor.facts.own_model.Trend; None if a further step raises or training failed before.

    The weights go on from the judged steps, with the doctor's optimizer started again.
    """
    if any(isinstance(step["loss"], str) or step["skipped"] for step in smoke["steps"]):
        return None
    if subject.update is not None and isinstance(subject.update.optimizer, Stepped):
        return None  # losses of several optimizers, such as a generator's, need not fall
    unmoved = {each["name"] for each in smoke["parameters"] if not each["moved"]}
    still = {n: fingerprints.fingerprint(w) for n, w in subject.weights.items() if n in unmoved}
    undone = [p["name"] for p in smoke["parameters"] if p["undone"] or p["rewritten"]]
    calls = loss_calls.LossCalls(subject.module, subject.batch)
    created = unregistered.Created(subject)
    writes = weight_writes.Writes({n: subject.weights[n] for n in undone})
    try:
        training = training_step.Training(created.subject, device, precision, recipe)
        training.subject = writes.around(training.subject)
        training.before.clear()
        training.undone.stop()
        steps, taken = further(training, device, calls, smoke["steps"])
        discarded = weight_writes.discarded(subject, undone, reseeded)
        norm_in_fp32 = in_fp32(training, steps)
    except Exception:
        return None
    finally:
        for weight in subject.weights.values():
            weight.grad = None
    return {
        **taken,
        "norm_in_fp32": norm_in_fp32,
        "discarded": discarded,
        "writes": writes.lines,
        "reached": [name for name, reached in training.reached.items() if reached],
        "created": created.shapes,
        "moved": moved(subject, still),
        **of_weights(subject.module),
        **of_calls(calls),
    }


def further(
    training: Training, device: torch.device, calls: Any, judged: List[Dict[str, Any]]
) -> Tuple[List[Dict[str, Any]], Dict[str, Any]]:
    """The steps, and the fields that they give; the judged ones alone where time was short."""
    steps = list(judged)
    seconds: List[float] = []
    began = time.monotonic()
    with calls:
        steps.append(training.step(stage))
    fits = (time.monotonic() - began) * (STEPS - len(judged)) <= SECONDS
    calls.compare(float(steps[-1]["loss"]))
    resident = take(training, device, steps, began + SECONDS, seconds) if fits else []
    ran = len(steps)
    if ran < STEPS:
        del steps[len(judged) :]
        resident = []
    return steps, {
        "ran": ran,
        "planned": STEPS,
        "step_seconds": sorted(seconds[-WATCHED:])[WATCHED // 2] if ran == STEPS else None,
        "losses": [step["loss"] for step in steps],
        "rates": [step["lr"] for step in steps],
        "norms": [step["grad_norm"] for step in steps],
        "resident": resident,
    }


def moved(subject: Subject, still: Dict[str, Any]) -> List[str]:
    """The weights that are not as they were; `still` has the fingerprints of then."""
    return [
        name
        for name, value in still.items()
        if not fingerprints.equal(value, fingerprints.fingerprint(subject.weights[name]))
    ]


def of_weights(module: torch.nn.Module) -> Dict[str, Any]:
    """The fields of a Trend that the modules and their weights show."""
    return {
        "large_weights": initial_weights.large(module),
        "heavy_dropouts": initial_weights.heavy_dropouts(module),
        "hasty_norms": observing.attempt(lambda: initial_weights.hasty_norms(module), []),
        "fresh_heads": observing.attempt(lambda: initial_weights.fresh_heads(module), []),
    }


def of_calls(calls: Any) -> Dict[str, Any]:
    """The fields of a Trend that the calls of losses and norms show."""
    return {
        "constant_norms": calls.norms[1],
        "norms_of_two": calls.norms[2],
        "single_keys": calls.attention.single(alone=False),
        "masked_attention": calls.attention.masked,
        "inverted_masks": calls.attention.padding_alone(),
        "backward_masks": calls.attention.backward,
        "single_tokens": calls.attention.single(alone=True),
        "single_steps": calls.recurrent.single(),
        "loss_factor": calls.factor,
        "classes": calls.classes[0] if len(calls.classes) == 1 else None,
        "saturated": calls.scales.saturated(),
        "misused": list(calls.misused.values()),
        "supervised": sorted({name for name, _ in calls.results}),
    }


def take(
    training: Training,
    device: torch.device,
    steps: List[Dict[str, Any]],
    deadline: float,
    seconds: List[float],
) -> List[int]:
    """Add steps until there are STEPS, and the time of each; returns the bytes in use after each of
    the last ones."""
    resident: List[int] = []
    while len(steps) < STEPS and time.monotonic() < deadline:
        began = time.perf_counter()
        steps.append(training.step(stage))  # reads the loss, so the device has ended it
        seconds.append(time.perf_counter() - began)
        if len(steps) == STEPS - WATCHED:
            gc.collect()
        if len(steps) > STEPS - WATCHED:
            resident.append(in_use(device))
    step, measure = lambda: training.step(stage), lambda: in_use(device)
    if device.type == "cuda" and may_be_workspaces(resident):
        return after(STREAMS, step, measure, STREAM_SECONDS) or resident
    if device.type == "cpu" and rises_of(resident, math.inf):
        with torch.backends.mkldnn.flags(enabled=False):  # it keeps a primitive of each new shape
            return after(1, step, measure, STREAM_SECONDS)
    return resident


def is_constant(steps: List[Dict[str, Any]]) -> bool:
    """Whether the loss is the same in all steps, up to rounding."""
    losses = [float(step["loss"]) for step in steps]
    return max(losses) - min(losses) <= ROUNDING * abs(losses[0])


def in_fp32(training: Training, steps: List[Dict[str, Any]]) -> Union[float, str, None]:
    """The norm of all gradients without autocast, if the loss is the same in all steps; else None.

    Of a loss that depends on no weight, the gradients are rounding errors, far smaller there.
    """
    if not is_constant(steps):
        return None
    weights = list(training.weights.values())
    for weight in weights:
        weight.grad = None
    subject = training.subject
    training_step.backpropagate(subject.loss(subject.module, subject.batch))  # without autocast
    squares = [float(w.grad.float().norm()) ** 2 for w in weights if w.grad is not None]
    return wire.number(sum(squares) ** 0.5)


def reseeded() -> None:
    build.seed_generators(build.SEED)


def stage(name: str) -> ContextManager[None]:
    return wire.stage("%s in more steps" % name)


def may_be_workspaces(resident: List[int]) -> bool:
    """Whether memory grew in each step by no more than a new stream's workspaces of cuBLAS: once
    the pool of streams is used up, a new stream is an old one."""
    return rises_of(resident, WORKSPACES)


def rises_of(resident: List[int], most: float) -> bool:
    """Whether memory grew, fell in no step, and rose by no more than that in each."""
    rises = [resident[n + 1] - resident[n] for n in range(len(resident) - 1)]
    return len(rises) == WATCHED - 1 and min(rises) >= 0 < max(rises) <= most


def after(
    unmeasured: int, step: Callable[[], Any], measure: Callable[[], int], seconds: float
) -> List[int]:
    """The bytes in use after further steps, without the first ones.

    [] where there is no time for them, or a step raises, as where the memory is full.
    """
    deadline = time.monotonic() + seconds
    resident: List[int] = []
    try:
        for number in range(unmeasured + WATCHED):
            if time.monotonic() > deadline:
                return []
            step()
            if number >= unmeasured:
                resident.append(measure())
    except Exception:
        return []
    return resident


def in_use(device: torch.device) -> int:
    """Bytes that the device's allocator holds; on a CPU those of the process, 0 if unknown.

    Without the workspaces of cuBLAS, of which each stream gets its own: they are no leak.
    """
    if device.type == "cuda":
        getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
        return int(torch.cuda.memory_allocated(device))
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * 4096
    except (OSError, AttributeError):
        return 0
