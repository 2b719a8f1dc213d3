"""The loss that backward() receives, and the norm of the gradients that a loop computes to clip."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Callable

from . import dynamo
from .foreign import Foreign
from .rules import LEAST_BACKWARDS
from .values import Scalar

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


def _backward(hooks: Hooks, original: Callable[..., Foreign]) -> Callable[..., Foreign]:  # noqa: C901 - one function
    torch, watch, steady = hooks.torch, hooks.watch, hooks.watch.steady
    armed, tensor, most = steady.armed, torch.Tensor, LEAST_BACKWARDS - 1
    begin, tracing = _begin(hooks), dynamo.tracing(torch)
    values, hold_steady = watch.values, watch.values.hold_steady

    def end() -> None:
        hooks.safely(watch.backward_ends)

    untraced_begin = dynamo.without_frames(torch, begin)
    untraced_end = dynamo.without_frames(torch, end)

    def backward(*args: Foreign, **kwargs: Foreign) -> Foreign:  # noqa: C901 - one frame: a call costs 1 us
        if steady.depth:
            return original(*args, **kwargs)
        if (
            steady.skips is not None
            and steady.stepping is None
            and steady.backwards - steady.stepped_at < most
        ):
            steady.backwards += 1
            steady.depth = 1
            try:
                return original(*args, **kwargs)
            finally:
                steady.depth = 0
        root: Foreign = args[0] if args else kwargs.get("tensors")
        logged = outermost = False
        try:
            if (
                armed
                and steady.stepping is None
                and steady.backwards - steady.stepped_at < most
                and type(root) is tensor
            ):
                logged = True
                for clearing in steady.uncleared:
                    if clearing.sample().grad is not None:
                        logged = False
                loss = None
                if logged:
                    on_cpu = root.is_cpu and not values.late
                    loss = root.item() if on_cpu else hold_steady(root)
                if type(loss) is float and -inf < loss < inf:
                    steady.losses.append(loss)
                    steady.losses_read += 1
                elif type(loss) is Scalar:
                    steady.losses.append(loss)
                else:
                    logged = False
        except Exception:  # the complete way handles it, or raises it again
            logged = False
        if not logged:
            outermost = (begin if tracing() is None else untraced_begin)(root)
        else:
            steady.backwards += 1
            if steady.uncleared:
                for clearing in steady.uncleared:
                    clearing.cleared = clearing.set_to_none = True
                steady.uncleared = []
        steady.depth = 1
        try:
            return original(*args, **kwargs)
        finally:
            steady.depth = 0
            if outermost and watch.follows_gradients:
                (end if tracing() is None else untraced_end)()

    return dynamo.without_frame(torch, backward)


def _begin(hooks: Hooks) -> Callable[..., Foreign]:
    watch, cuda = hooks.watch, hooks.torch.cuda

    def begin(root: Foreign) -> bool:
        """Whether this is a backward pass that counts: the outermost, not being captured."""
        if not hooks.active:
            return False
        if getattr(cuda, "_initialized", True) and hooks.capturing():
            return False
        if not hooks.closure and watch.steady.stepping is not None:
            watch.steady.step_raised()
        try:
            watch.backward_begins(root)
        except Exception as error:
            hooks.fail(error)
        return True

    return begin


def _total_norm(hooks: Hooks, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
    torch, steady, tensor = hooks.torch, hooks.watch.steady, hooks.torch.Tensor
    inlining, tracing = dynamo.inlining(torch), dynamo.tracing(torch)

    def note(tensors: Foreign, norm: Foreign) -> None:
        if hooks.may_look() and isinstance(tensors, (list, tuple)):
            steady.norm, steady.norm_count = norm, len(tensors)

    untraced_note = dynamo.without_frames(torch, note)

    def _get_total_norm(tensors: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        if inlining():
            return original(tensors, *args, **kwargs)
        norm = original(tensors, *args, **kwargs)
        if steady.skips is not None:
            return norm
        if type(tensors) is list and type(norm) is tensor and norm.is_cpu:
            steady.norm, steady.norm_count = norm, len(tensors)
        else:
            (note if tracing() is None else untraced_note)(tensors, norm)
        return norm

    return _get_total_norm


def _clip(hooks: Hooks, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
    """For torch before 2.7."""

    def clip_grad_norm_(parameters: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        single = isinstance(parameters, hooks.torch.Tensor)
        parameters = parameters if single else list(parameters)
        norm = original(parameters, *args, **kwargs)
        if not single and hooks.may_look():
            steady = hooks.watch.steady
            steady.norm = norm
            steady.norm_count = sum([p.grad is not None for p in parameters])
        return norm

    return clip_grad_norm_
