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


def forward(subject: Subject, batch: Foreign, note: Note = ignore) -> Dict[str, torch.Tensor]:
    """The floating tensors that the model returns in one evaluation of the loss, by name.

    Without dropout, and with the same random numbers each time.
    """
    caught: List[Any] = []
    hook = subject.module.register_forward_hook(lambda module, args, out: caught.append(out))
    was_training = subject.module.training
    subject.module.eval()
    build.seed_generators(build.SEED)
    try:
        with torch.no_grad(), Watch(note):
            subject.loss(subject.module, batch)
    finally:
        hook.remove()
        subject.module.train(was_training)
    if len(caught) != 1:
        raise ValueError("the loss calls the model %d times" % len(caught))
    out = caught[0]
    values = containers.tensors(dict(out) if observing.has(out, "items") else out)
    return {
        name: observing.plain(each)
        for name, each in values.items()
        if each.is_floating_point() and each.dim()
    }


def changed_at(index: int, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with another entry at this index of its first dimension."""
    result = tensor.clone()
    if tensor.is_floating_point():
        result[index] = result[index] * 1.7 + 0.31
    elif tensor.dim() > 1:
        result[index] = result[index].roll(1, -1)
    return result


def differing(one: torch.Tensor, other: torch.Tensor, axis: int) -> List[int]:
    """The indices along an axis at which two tensors differ by more than rounding."""
    rest = [each for each in range(one.dim()) if each != axis]
    gap = (one - other).abs().amax(rest) if rest else (one - other).abs()
    scale = float(one.abs().max()) or 1.0
    return [int(each) for each in (gap > 1e-4 * scale).nonzero().flatten()]


def axis_of(small: Tuple[int, ...], large: Tuple[int, ...], sizes: Tuple[int, int]) -> int:
    """The only axis that follows the size of the batch, -1 if there is none or several."""
    if len(small) != len(large):
        return -1
    changed = [axis for axis, pair in enumerate(zip(small, large)) if pair[0] != pair[1]]
    fits = len(changed) == 1 and (small[changed[0]], large[changed[0]]) == sizes
    return changed[0] if fits else -1
