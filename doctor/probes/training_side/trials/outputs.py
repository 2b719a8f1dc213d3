"""The output of a model for a batch, and which operations computed it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, containers, observing, places
from ..subject import build
from ..subject.training_step import Subject

Note = Callable[[str, Any, Dict[str, Any], Any], None]


class Watch(TorchFunctionMode):
    """Passes each function of torch to `note`: its name, arguments, options and result."""

    def __init__(self, note: Note) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        result = func(*args, **options)
        observing.attempt(
            lambda: self._note(observing.function_name(func), args, options, result), None
        )
        return result


class Operation(NamedTuple):
    name: str
    place: str


def place() -> str:
    frame = places.user_frame()
    return "%s (`%s`)" % places.line(frame) if frame is not None else ""


def ignore(name: str, args: Any, options: Dict[str, Any], result: Any) -> None:
    """Note nothing."""


def evaluate(subject: Subject, batch: Foreign, note: Note = ignore) -> torch.Tensor:
    """The loss without dropout, and with the same random numbers each time."""
    was_training = subject.module.training
    subject.module.eval()
    build.seed_generators(build.SEED)
    try:
        with torch.no_grad(), Watch(note):
            return subject.loss(subject.module, batch)
    finally:
        subject.module.train(was_training)


def loss_as_trained(subject: Subject, batch: Foreign) -> torch.Tensor:
    """The loss in the mode that the module is in, with the same random numbers each time."""
    build.seed_generators(build.SEED)
    with torch.no_grad():
        return subject.loss(subject.module, batch)


LOSSES = ("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
          "binary_cross_entropy", "binary_cross_entropy_with_logits")  # fmt: skip


def forward(subject: Subject, batch: Foreign, note: Note = ignore) -> Dict[str, torch.Tensor]:
    """The floating tensors that the model returns in one evaluation of the loss, by name; of a
    model that returns its loss alone, what the losses of torch get."""
    caught: List[Any] = []
    compared: Dict[str, torch.Tensor] = {}

    def noted(name: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if name in LOSSES and args and isinstance(args[0], torch.Tensor):
            compared["%s %d" % (name, len(compared))] = args[0]
        note(name, args, options, result)

    hook = subject.module.register_forward_hook(lambda module, args, out: caught.append(out))
    try:
        evaluate(subject, batch, noted)
    finally:
        hook.remove()
    if len(caught) != 1:
        raise ValueError("the loss calls the model %d times" % len(caught))
    out = caught[0]
    values = containers.tensors(dict(out) if observing.has(out, "items") else out)
    for named in (values, compared):
        found = {
            name: observing.plain(each)
            for name, each in named.items()
            if each.is_floating_point() and each.dim()
        }
        if found:
            return found
    return {}


def changed_at(index: int, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with another entry at this index of its first dimension."""
    result = tensor.clone()
    if tensor.is_floating_point():
        result[index] = result[index] * 1.7 + 0.31
    elif tensor.dim() > 1:
        result[index] = result[index].roll(1, -1)
    return result


def differing(one: torch.Tensor, other: torch.Tensor, axis: int, least: float = 1e-4) -> List[int]:
    """The indices along an axis at which two tensors differ by more than rounding."""
    rest = [each for each in range(one.dim()) if each != axis]
    gap = (one - other).abs().amax(rest) if rest else (one - other).abs()
    scale = float(one.abs().max()) or 1.0
    return [int(each) for each in (gap > least * scale).nonzero().flatten()]


def axis_of(small: Tuple[int, ...], large: Tuple[int, ...], sizes: Tuple[int, int]) -> int:
    """The only axis that follows the size of the batch, -1 if there is none or several."""
    if len(small) != len(large):
        return -1
    changed = [axis for axis, pair in enumerate(zip(small, large)) if pair[0] != pair[1]]
    fits = len(changed) == 1 and (small[changed[0]], large[changed[0]]) == sizes
    return changed[0] if fits else -1
