"""Before and after the step of every torch.optim optimizer."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from . import dynamo

if TYPE_CHECKING:
    from .hooks import Hooks


def install(hooks: Hooks) -> None:
    """The hooks that torch.optim calls for all optimizers."""
    from torch.optim import optimizer as module

    pre = getattr(module, "register_optimizer_step_pre_hook", None)
    post = getattr(module, "register_optimizer_step_post_hook", None)
    if pre is None or post is None:
        return
    handles = [pre(_untraced(hooks, _before(hooks))), post(_untraced(hooks, _after(hooks)))]
    hooks.undo.extend(handle.remove for handle in handles)


def _untraced(hooks: Hooks, function: Any) -> Any:
    """The hook, whose frames torch.compile does not examine where it is at work."""
    tracing, disabled = dynamo.tracing(hooks.torch), dynamo.without_frames(hooks.torch, function)

    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        if tracing() is None:
            function(optimizer, args, kwargs)
        else:
            disabled(optimizer, args, kwargs)

    return dynamo.without_frame(hooks.torch, hook)


def _before(hooks: Hooks) -> Any:
    cuda, begin, protection = hooks.torch.cuda, hooks.watch.step_begins, hooks.protection

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        running = hooks.stepping
        if not hooks.active or (running is not None and running() is not None):
            return  # the step of a step: a subclass that calls super(), or an optimizer inside
        if getattr(cuda, "_initialized", True) and hooks.capturing():
            return
        hooks.closure = closure = bool(kwargs or len(args) > 1) and _has_closure(args, kwargs)
        hooks.stepping = weakref.ref(optimizer)
        try:
            begin(optimizer, closure)
            if protection is not None:
                protection.begin(optimizer)
        except Exception as error:
            hooks.fail(error)

    return before


def _after(hooks: Hooks) -> Any:
    cuda, end, protection = hooks.torch.cuda, hooks.watch.step_ends, hooks.protection
    alarms = hooks.watch.alarms

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        running = hooks.stepping
        if running is None or running() is not optimizer:
            return
        hooks.stepping = None
        if protection is not None:
            protection.end(optimizer)
        if hooks.active and not (getattr(cuda, "_initialized", True) and hooks.capturing()):
            try:
                end(optimizer, hooks.closure)
            except Exception as error:
                hooks.fail(error)
        if alarms.stop_wanted:
            hooks.watch.end_if_wanted()

    return after


def _has_closure(args: Any, kwargs: Any) -> bool:
    """Whether step() got a closure, in which the gradients are computed."""
    return any(callable(value) for value in (*args[1:], *kwargs.values()))
