"""The loss that backward() receives, and the norm of the gradients that a loop computes to clip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import dynamo

if TYPE_CHECKING:
    from .hooks import Hooks


def install(hooks: Hooks) -> None:
    """Wrap torch.autograd.backward and the function that computes the norm."""
    torch = hooks.torch
    hooks.replace(torch.autograd, "backward", lambda original: _backward(hooks, original))
    module = torch.nn.utils.clip_grad
    if "_get_total_norm" in vars(module):
        hooks.replace(module, "_get_total_norm", lambda original: _total_norm(hooks, original))
        return
    for owner in (module, torch.nn.utils):
        hooks.replace(owner, "clip_grad_norm_", lambda original: _clip(hooks, original))


def _backward(hooks: Hooks, original: Any) -> Any:
    torch, watch = hooks.torch, hooks.watch
    begin, tracing = _begin(hooks), dynamo.tracing(torch)

    def end() -> None:
        hooks.safely(watch.backward_ends)

    untraced_begin = dynamo.without_frames(torch, begin)
    untraced_end = dynamo.without_frames(torch, end)

    def backward(*args: Any, **kwargs: Any) -> Any:
        root = args[0] if args else kwargs.get("tensors")
        outermost = (begin if tracing() is None else untraced_begin)(root)
        hooks.depth += 1
        try:
            return original(*args, **kwargs)
        finally:
            hooks.depth -= 1
            if outermost and watch.follows_gradients:
                (end if tracing() is None else untraced_end)()

    return dynamo.without_frame(torch, backward)


def _begin(hooks: Hooks) -> Any:
    watch, cuda = hooks.watch, hooks.torch.cuda

    def begin(root: Any) -> bool:
        """Whether this is a backward pass that counts: the outermost, not being captured."""
        if hooks.depth or not hooks.active:
            return False
        if getattr(cuda, "_initialized", True) and hooks.capturing():
            return False
        if not hooks.closure:
            hooks.stepping = None  # a step that raised never ended
        try:
            watch.backward_begins(root)
        except Exception as error:
            hooks.fail(error)
        return True

    return begin


def _total_norm(hooks: Hooks, original: Any) -> Any:
    torch, watch, cuda = hooks.torch, hooks.watch, hooks.torch.cuda
    inlining, tracing = dynamo.inlining(torch), dynamo.tracing(torch)

    def note(tensors: Any, norm: Any) -> None:
        capturing = getattr(cuda, "_initialized", True) and hooks.capturing()
        if hooks.active and not capturing and isinstance(tensors, (list, tuple)):
            watch.norm = (len(tensors), norm)

    untraced_note = dynamo.without_frames(torch, note)

    def _get_total_norm(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if inlining():
            return original(tensors, *args, **kwargs)
        norm = original(tensors, *args, **kwargs)
        (note if tracing() is None else untraced_note)(tensors, norm)
        return norm

    return _get_total_norm


def _clip(hooks: Hooks, original: Any) -> Any:
    """For torch before 2.7."""

    def clip_grad_norm_(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        single = isinstance(parameters, hooks.torch.Tensor)
        parameters = parameters if single else list(parameters)
        norm = original(parameters, *args, **kwargs)
        if not single and hooks.may_look():
            hooks.watch.norm = (sum([p.grad is not None for p in parameters]), norm)
        return norm

    return clip_grad_norm_
