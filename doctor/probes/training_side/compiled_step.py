"""The same step eager and under torch.compile, and how far apart their gradients are.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
    {"stage": "compiled", "subject": {...}, "device": "cpu", "precision": "bf16", "recipe": "amp",
     "cache": a folder for the compiler's files}
                                      {"compiled": {training_sections.Compiled}}
Nothing is dropped out (eval mode): the compiler draws other random numbers.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any, Dict, List, Optional, Tuple

import torch
import wire

training_step = wire.sibling("training_step")
subjects = wire.sibling("subjects")
own_stages = wire.sibling("own_stages")

Gradients = List[Optional[torch.Tensor]]


def compiled(request: Dict[str, Any]) -> Dict[str, Any]:
    """Both steps, as Compiled has them; what the compiled one raises is part of it."""
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR"):
        os.environ[variable] = request["cache"]
    tempfile.tempdir = None  # asked for anew
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no helper processes that outlive this one
    device = torch.device(request["device"])
    training_step.freed(device)
    subject = subjects.build(request["subject"], device, request["recipe"])
    subject.module.eval()
    training = training_step.Training(subject, device, request["precision"], request["recipe"])
    with wire.stage("eager step"):
        eager, plain = step(training, subject.module)
    wire.tell(note={"compiled": {"eager": eager}})
    began = time.perf_counter()
    told: Dict[str, Any] = {"eager": eager, "ended": {"how": "ok"}}
    try:
        with wire.stage("compile, and the compiled step"):
            told["compiled"], made = step(training, torch.compile(subject.module))
        told["error"] = wire.number(distance(plain, made))
    except Exception as error:
        told["ended"] = {"how": "error", "detail": own_stages.explained(error)}
    told["ended"]["seconds"] = time.perf_counter() - began
    return {"compiled": told}


def step(training: Any, module: Any) -> Tuple[Dict[str, Any], Gradients]:
    """Loss and gradients of one forward and backward pass; no weight changes."""
    for weight in training.weights.values():
        weight.grad = None
    with training.autocast():
        loss = training.subject.loss(module, training.subject.batch)
    loss.backward()
    found = [None if w.grad is None else w.grad.clone() for w in training.weights.values()]
    total = sum(squares(each) for each in found if each is not None) ** 0.5
    said = {"loss": wire.number(float(loss.detach())), "grad_norm": wire.number(total), "lr": 0.0}
    return said, found


def squares(value: torch.Tensor) -> float:
    """Sum of the squares, through a norm in fp32: MPS has no fp64, and huge squares overflow."""
    return float(value.float().norm()) ** 2


def distance(plain: Gradients, made: Gradients) -> float:
    """Relative Frobenius error over all gradients; one that is missing counts as 0."""
    apart = whole = 0.0
    for one, other in zip(plain, made):
        if one is None and other is None:
            continue
        present = one if one is not None else other
        assert present is not None
        first = torch.zeros_like(present) if one is None else one
        second = torch.zeros_like(present) if other is None else other
        apart += squares(first.float() - second.float())
        whole += squares(first)
    if whole == 0.0:
        return 0.0 if apart == 0.0 else float("inf")
    return float((apart / whole) ** 0.5)
