"""The same step eager and under torch.compile, and the difference of their gradients.

    {"stage": "compiled", "subject": {...}, "device": "cpu", "precision": "bf16", "recipe": "amp",
     "cache": a directory for the compiler's files}
                                      {"compiled": {doctor.facts.own_model.Compiled}}
Eval mode, so without dropout: the compiler draws other random numbers.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from typing import Any, Dict, List, Optional, Tuple

import torch

from ... import wire
from ..errors import tracebacks
from ..foreign import Foreign
from ..subject import build, memory, training_step
from ..subject.training_step import Training

Gradients = List[Optional[torch.Tensor]]


def compiled(request: Dict[str, Any]) -> Dict[str, Any]:
    """Both steps as a Compiled record; an error of the compiled one is part of it."""
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR"):
        os.environ[variable] = request["cache"]
    tempfile.tempdir = None  # computed again
    # Headers that are compiled beforehand pay from the second kernel on.
    os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no helper processes that outlive this one
    device = torch.device(request["device"])
    memory.free_memory(device)
    subject = build.build(request["subject"], device, request["recipe"])
    subject.module.eval()
    training = training_step.Training(subject, device, request["precision"], request["recipe"])
    with wire.stage("eager step"):
        eager, reference = step(training, subject.module)
    wire.send(note={"compiled": {"eager": eager}})
    exact = in_fp32(training) if training.cast else None
    started = time.perf_counter()
    result: Dict[str, Any] = {"eager": eager, "ended": {"how": "ok"}}
    try:
        with wire.stage("compile, and the compiled step"):
            result["compiled"], generated = step(training, torch.compile(subject.module))
        result["error"] = wire.number(distance(reference, generated))
        result["differs_most"] = furthest(list(training.weights), reference, generated)
        if exact is not None:
            result["eager_error"] = wire.number(distance(exact, reference))
            result["compiled_error"] = wire.number(distance(exact, generated))
    except Exception as error:
        result["ended"] = {"how": "error", "detail": tracebacks.explained(error)}
    result["ended"]["seconds"] = time.perf_counter() - started
    return {"compiled": result}


def step(
    training: Training, module: Foreign, cast: bool = True
) -> Tuple[Dict[str, Any], Gradients]:
    """Loss and gradients of one forward and backward pass; no weight changes.

    `cast`: under autocast, if the recipe has it.
    """
    for weight in training.weights.values():
        weight.grad = None
    with training.autocast() if cast else contextlib.nullcontext():
        loss = training.subject.loss(module, training.subject.batch)
    training_step.backpropagate(loss)
    gradients = [None if w.grad is None else w.grad.clone() for w in training.weights.values()]
    total = sum(squares(each) for each in gradients if each is not None) ** 0.5
    numbers = {
        "loss": wire.number(float(loss.detach())),
        "grad_norm": wire.number(total),
        "lr": 0.0,
    }
    return numbers, gradients


def in_fp32(training: Training) -> Optional[Gradients]:
    """The gradients of the eager step without autocast; None if it raises, such as for memory."""
    try:
        with wire.stage("eager step in fp32"):
            return step(training, training.subject.module, cast=False)[1]
    except Exception:
        return None


def squares(value: torch.Tensor) -> float:
    """Sum of the squares, through a norm in fp32: MPS has no fp64, and huge squares overflow."""
    return float(value.float().norm()) ** 2


def furthest(names: List[str], reference: Gradients, generated: Gradients) -> str:
    """The parameter with the largest difference, "" if none differs."""
    apart = [distance_of(one, other)[0] for one, other in zip(reference, generated)]
    largest = max(apart, default=0.0)
    return names[apart.index(largest)] if largest > 0.0 else ""


def distance(reference: Gradients, generated: Gradients) -> float:
    """Relative Frobenius error over all gradients; one that is missing counts as 0."""
    pairs = [distance_of(one, other) for one, other in zip(reference, generated)]
    difference, total = (sum(column) for column in zip(*pairs)) if pairs else (0.0, 0.0)
    if total == 0.0:
        return 0.0 if difference == 0.0 else float("inf")
    return float((difference / total) ** 0.5)


def distance_of(one: Optional[torch.Tensor], other: Optional[torch.Tensor]) -> Tuple[float, float]:
    """Squares of the difference of two gradients, and of the first one."""
    if one is None and other is None:
        return 0.0, 0.0
    present = one if one is not None else other
    assert present is not None
    first = torch.zeros_like(present) if one is None else one
    second = torch.zeros_like(present) if other is None else other
    return squares(first.float() - second.float()), squares(first)
