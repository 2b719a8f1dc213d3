"""The values that are not finite where an error was raised."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Tuple

import torch

from ..foreign import stack_frames

MOST = 3


def observe(error: Any, frames: List[Any], user: Any, model: Any) -> Dict[str, str]:
    """The variables of the user's line, and the arguments of what it called, that are NaN or
    infinite; parameters of the innermost module."""
    if user is None:
        return {}
    places: Dict[int, str] = {}
    for name, value in (
        *stack_frames.values_in(user, user.expression),
        *called(frames, user),
        *of_module(frames),
    ):
        if text := counted(value):
            places.setdefault(id(value), "%s (%s)" % (name, text))
    return {"not finite": ", ".join(list(places.values())[:MOST])} if places else {}


def called(frames: List[Any], user: Any) -> Iterator[Tuple[str, Any]]:
    """The arguments of the functions of libraries that the user's line called."""
    below = frames[frames.index(user) + 1 :] if user in frames else []
    for frame in below:
        yield from frame.arguments().items()


def of_module(frames: List[Any]) -> Iterator[Tuple[str, Any]]:
    for module in stack_frames.running_modules(frames)[-1:]:
        yield from module.named_parameters(recurse=False)


def counted(value: Any) -> str:
    """ "36 of 36 values", "nan" for a number; "" if it is finite."""
    if isinstance(value, float):
        return "" if math.isfinite(value) else str(value)
    if not isinstance(value, torch.Tensor) or not value.numel():
        return ""
    if value.layout != torch.strided or not (value.is_floating_point() or value.is_complex()):
        return ""
    bad = int((~torch.isfinite(value.detach())).sum())
    return "%d of %d values" % (bad, value.numel()) if bad else ""
