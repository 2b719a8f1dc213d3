"""The output of a Linear, [n, 1], with a target of the batch, [n]: their difference is [n, n]."""

from __future__ import annotations

from typing import Any, Dict, List, Set

import torch

from ..foreign import containers
from ..subject.training_step import Subject
from . import outputs
from .outputs import Operation

ARITHMETIC = ("sub", "rsub", "add", "mul", "__sub__", "__rsub__", "__add__", "__mul__", "__rmul__",
              "__radd__")  # fmt: skip


def trial(subject: Subject) -> Dict[str, Any]:
    """Looks for arithmetic of both as they are: pairwise losses reshape one on purpose."""
    leaves = {id(each) for each in containers.tensors(subject.batch).values() if each.dim() == 1}
    if not leaves:
        return {"applies": False, "reason": "no one-dimensional target in the batch"}
    made: Set[int] = set()
    kept: List[torch.Tensor] = []
    found: List[Operation] = []

    def note(name: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if name == "linear" and result.dim() == 2 and result.shape[1] == 1 < result.shape[0]:
            made.add(id(result))
            kept.append(result)
        elif name in ARITHMETIC and len(args) > 1:
            pair = {id(args[0]), id(args[1])}
            if pair & made and pair & leaves and result.dim() == 2 and result.shape[1] > 1:
                shapes = " and ".join(str(list(each.shape)) for each in args[:2])
                found.append(Operation("%s of %s" % (name.strip("_"), shapes), outputs.place()))

    was_training = subject.module.training
    try:
        with torch.no_grad(), outputs.Watch(note):
            subject.loss(subject.module, subject.batch)
    finally:
        subject.module.train(was_training)
    if not found:
        return {"applies": bool(made), "found": "", "reason": "" if made else "no Linear of one"}
    return {
        "applies": True, "found": "broadcast",
        "operation": found[0].name, "place": found[0].place,
    }  # fmt: skip
