"""Hooks on all modules of a model while something runs."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator, Optional

import torch

Hook = Callable[[str, torch.nn.Module, Any, Any], None]


@contextlib.contextmanager
def module_hooks(
    model: torch.nn.Module, before: Optional[Hook] = None, after: Optional[Hook] = None
) -> Iterator[None]:
    """Call before(name, module, arguments, options) and after(name, module, arguments, result) of
    every module, the model itself under the name ""."""
    handles = []
    for name, each in model.named_modules():
        if isinstance(each, torch.jit.ScriptModule):  # it takes no hooks
            continue
        if before is not None:
            hook = functools.partial(before, name)
            handles.append(each.register_forward_pre_hook(hook, with_kwargs=True))
        if after is not None:
            handles.append(each.register_forward_hook(functools.partial(after, name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
