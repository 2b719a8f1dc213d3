"""Whether an evaluation of the model is one: no dropout, and no buffer that moves with what is
evaluated."""

from __future__ import annotations

from typing import Any, Dict, List, Set

import torch

from ..foreign import observing
from ..subject import build
from ..subject.training_step import Subject
from ..values.value_origins import tensors
from . import outputs
from .outputs import Operation

DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
            "feature_alpha_dropout")  # fmt: skip
ON_PURPOSE = "training=True"
"""In the line of the call: several draws are averaged (Monte Carlo dropout)."""
ATTENTION = "scaled_dot_product_attention"


def trial(subject: Subject) -> Dict[str, Any]:
    """Evaluates the loss in eval() three times. The first one may fill caches; a buffer that the
    second and the third one change is a statistic, unless each changes other rows, as in the queue
    of a contrastive training, whose forward pass no evaluation calls. One that is read under
    no_grad alone belongs to the targets of a training loss, as the centre of a teacher, and no
    prediction depends on it."""
    module = subject.module
    module.eval()
    dropped: List[Operation] = []
    read: Set[int] = set()

    def note(name: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if torch.is_grad_enabled():
            read.update(observing.storage_address(each) for each in tensors((args, options)))
        if not module.training and drops(name, args, options):
            place = outputs.place()
            if ON_PURPOSE not in place.replace(" ", ""):
                dropped.append(Operation("%s()" % name, place))

    buffers: List[Dict[str, torch.Tensor]] = []
    trained: Set[str] = set()
    for number in range(3):
        build.seed_generators(build.SEED)
        addresses = {name: observing.storage_address(each) for name, each in module.named_buffers()}
        read.clear()
        with torch.set_grad_enabled(number == 2), outputs.Watch(note):
            subject.loss(module, subject.batch)
        trained |= {name for name, address in addresses.items() if address in read}
        buffers.append(_statistics(module))
    if dropped:
        return {
            "applies": True, "found": "dropout",
            "operation": dropped[0].name, "place": dropped[0].place,
        }  # fmt: skip
    first, second, third = buffers
    moved = [
        name
        for name in first
        if name in trained
        and _differ(first[name], second.get(name))
        and _differ(second[name], third.get(name))
        and not _is_queue(first[name], second[name], third[name])
    ]
    if module.training or not moved:
        return {"applies": not module.training, "found": ""}
    return {"applies": True, "found": "buffers", "operation": ", ".join(moved[:3])}


def drops(name: str, args: Any, options: Dict[str, Any]) -> bool:
    """Whether a call of torch.nn.functional zeroes values at random."""
    if name == ATTENTION:
        return bool(options.get("dropout_p", args[4] if len(args) > 4 else 0.0))
    if name not in DROPOUTS:
        return False
    share = options.get("p", args[1] if len(args) > 1 else 0.5)
    return bool(share) and bool(options.get("training", args[2] if len(args) > 2 else True))


def _statistics(module: torch.nn.Module) -> Dict[str, torch.Tensor]:
    """A copy of the floating buffers that are saved."""
    saved = set(module.state_dict())
    return {
        name: observing.plain(buffer).clone()
        for name, buffer in module.named_buffers()
        if name in saved and buffer.is_floating_point()
    }


def _differ(one: torch.Tensor, other: Any) -> bool:
    """Whether the values differ; two that are NaN are equal."""
    if other is None or one.shape != other.shape:
        return False
    return bool(((one != other) & ~(one.isnan() & other.isnan())).any())


def _is_queue(first: torch.Tensor, second: torch.Tensor, third: torch.Tensor) -> bool:
    """Whether each evaluation changed other rows, of any axis."""
    before, after = first != second, second != third
    for axis in range(first.dim()):
        size = first.shape[axis]
        one, two = (each.transpose(0, axis).reshape(size, -1).any(1) for each in (before, after))
        if not bool((one & two).any()):
            return True
    return False
