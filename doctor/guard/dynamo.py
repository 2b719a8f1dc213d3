"""Keeps the guard's own frames out of torch.compile.

A frame of the guard that torch.compile examined would be one more to compile, and what it does
(reading a number) would break the graph.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Callable

from .foreign import Foreign


def without_frames(torch: ModuleType, function: Callable[..., Foreign]) -> Callable[..., Foreign]:
    """The function, with everything it calls untraced. Imports torch._dynamo when it is called."""

    def call(*args: Foreign, **kwargs: Foreign) -> Foreign:
        return function(*args, **kwargs)

    disable = getattr(torch, "_disable_dynamo", None)
    return call if disable is None else disable(call)


def without_frame(torch: ModuleType, function: Foreign) -> Callable[..., Foreign]:
    """The function, whose own frame torch.compile leaves alone, but none that it calls."""
    module = _eval_frame(torch)
    try:
        if hasattr(module, "skip_code"):  # until torch 2.6
            module.skip_code(function.__code__)
        else:
            action = module._FrameAction
            strategy = module._FrameExecStrategy(action.SKIP, action.DEFAULT)
            module.set_code_exec_strategy(function.__code__, strategy)
    except (AttributeError, TypeError):
        return _wrapped(torch, function)
    function._torchdynamo_disable = True  # where it would be inlined
    skipped: Callable[..., Foreign] = function
    return skipped


def _wrapped(torch: ModuleType, function: Callable[..., Foreign]) -> Callable[..., Foreign]:
    """The same by the decorator, a call more."""
    disable = getattr(torch, "_disable_dynamo", None)
    if disable is None:
        return function
    try:
        skipped = disable(function, recursive=False)
    except TypeError:
        return function

    def call(*args: Foreign, **kwargs: Foreign) -> Foreign:
        # Without torch._dynamo nothing traces, and it is not imported for this.
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        return skipped(*args, **kwargs)

    return call


def tracing(torch: ModuleType) -> Callable[[], Foreign]:
    """What torch.compile does with the frames of this thread; None where it is not at work.

    torch 2.7.1 returns the callback without a reference of its own: each call takes one away from
    None or from the callback, until the process dies. 2.13 and later were measured to be right.
    """
    module = _eval_frame(torch)
    version = [int(part) for part in torch.__version__.split(".")[:2] if part.isdigit()]
    counted = version >= [2, 13]
    read: Callable[[], Foreign] | None = getattr(module, "get_eval_frame_callback", None)
    read = read if counted else None
    return read or (lambda: "unknown" if "torch._dynamo" in sys.modules else None)


def inlining(torch: ModuleType) -> Callable[[], bool]:
    """Whether torch.compile is tracing the call; it replaces the answer by True."""
    compiler = getattr(torch, "compiler", None)
    for name in ("is_dynamo_compiling", "is_compiling"):
        read: Callable[[], bool] | None = getattr(compiler, name, None)
        if read is not None:
            return read
    return lambda: False


def _eval_frame(torch: ModuleType) -> Foreign:
    """What of torch.compile stands between a call and its frame; None where torch has none."""
    return getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
