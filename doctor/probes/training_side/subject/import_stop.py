"""Stops a training that begins while a file is imported: at its first backward, step or save.

The files that it imports, and what a syntax does not show, may train there, too.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, List, Tuple

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..foreign import Foreign, containers, observing, places


class TrainsOnImport(BaseException):
    """No Exception: `except Exception` around a training would go on with it."""


@contextlib.contextmanager
def stopped_at_training() -> Iterator[None]:
    """Raise TrainsOnImport at the first backward pass, optimizer step or save of a model."""
    patched: List[Tuple[Any, str, Any]] = [
        (owner, name, getattr(owner, name))
        for owner, name in ((torch.autograd, "backward"), (torch, "save"))
    ]
    for owner, name, original in patched:
        setattr(owner, name, _stopping(original, name))
    hook = register_optimizer_step_pre_hook(_at_step)
    try:
        yield
    finally:
        hook.remove()
        for patch in patched:
            setattr(*patch)


def _stopping(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    def stop(*args: Foreign, **options: Foreign) -> Foreign:
        if name == "save" and not _is_of_a_model(args[0] if args else options.get("obj")):
            return original(*args, **options)
        raise TrainsOnImport(_place(name))

    return stop


def _at_step(optimizer: Foreign, args: Foreign, options: Foreign) -> None:
    raise TrainsOnImport(_place("step"))


def _is_of_a_model(value: Foreign) -> bool:
    """A module, or what a training saves of one: not a cached data set."""
    if isinstance(value, torch.nn.Module):
        return True
    parameters = (
        isinstance(each, torch.nn.Parameter) for each in containers.tensors(value).values()
    )
    return any(parameters) or type(value).__name__ == "OrderedDict"


def _place(name: str) -> str:
    frame = observing.attempt(places.user_frame, None)
    where = " (%s: `%s`)" % places.line(frame) if frame is not None else ""
    return "%s was called%s" % (name, where)
