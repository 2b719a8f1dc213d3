"""The loss that backward() receives, and the norm of the gradients that a loop computes to clip."""

from __future__ import annotations

from math import inf
from typing import Callable

from . import dynamo
from . import thresholds as limit
from .foreign import Foreign
from .patches import Patches
from .steady import Steady
from .switch import Switch, raise_of_a_signal
from .values import Scalar
from .watch import Watch


def install(switch: Switch, patches: Patches, watch: Watch) -> None:
    """Wrap torch.autograd.backward and the function that computes the norm."""
    torch, steady = switch.torch, watch.steady
    patches.replace(torch.autograd, "backward", lambda original: _backward(switch, watch, original))
    module = torch.nn.utils.clip_grad
    if "_get_total_norm" in vars(module):
        patches.replace(
            module, "_get_total_norm", lambda original: _total_norm(switch, steady, original)
        )
        return
    for owner in (module, torch.nn.utils):
        patches.replace(owner, "clip_grad_norm_", lambda original: _clip(switch, steady, original))


def _backward(switch: Switch, watch: Watch, original: Callable[..., Foreign]) -> Foreign:
    torch, steady, early = switch.torch, watch.steady, watch.early
    most, tracing = limit.BACKWARDS_WITHOUT_STEP - 1, dynamo.tracing(torch)
    begin, logs = _begin(switch, watch), _logs(switch, watch)

    def end() -> None:
        switch.safely(watch.backward_ends)

    untraced_begin = dynamo.without_frames(torch, begin)
    untraced_end = dynamo.without_frames(torch, end)

    def backward(*args: Foreign, **kwargs: Foreign) -> Foreign:
        if steady.depth:
            return original(*args, **kwargs)
        root: Foreign = args[0] if args else kwargs.get("tensors")
        if early.open and tracing() is None:
            switch.safely(early.passes, root)
        usual = steady.stepping is None and steady.backwards - steady.stepped_at < most
        outermost = False
        if usual and (steady.skips is not None or logs(root)):
            steady.backwards += 1
        else:
            outermost = (begin if tracing() is None else untraced_begin)(root)
        steady.depth = 1
        try:
            return original(*args, **kwargs)
        finally:
            steady.depth = 0
            if outermost and watch.follows_gradients:
                (end if tracing() is None else untraced_end)()

    return dynamo.without_frame(torch, backward)


def _logs(switch: Switch, watch: Watch) -> Foreign:  # noqa: C901 - one frame, see below
    torch, steady, values = switch.torch, watch.steady, watch.values
    armed, tensor, hold_steady = steady.armed, torch.Tensor, values.hold_steady

    def logs(root: Foreign) -> bool:  # noqa: C901 - a frame costs 0.1 us
        """Whether a pass from this loss needs no other look than at its value, which is noted."""
        if not armed or type(root) is not tensor:
            return False
        try:
            for clearing in steady.uncleared:
                if clearing.sample().grad is not None:
                    return False
            on_cpu = root.is_cpu and not values.late
            loss = root.item() if on_cpu else hold_steady(root)
            if type(loss) is float and -inf < loss < inf:
                steady.losses_read += 1
            elif type(loss) is not Scalar:
                return False
        except Exception as error:  # the complete way handles it, or raises it again
            raise_of_a_signal(error)
            return False
        steady.losses.append(loss)
        if steady.uncleared:
            for clearing in steady.uncleared:
                clearing.cleared = clearing.set_to_none = True
            steady.uncleared = []
        return True

    return dynamo.without_frame(torch, logs)


def _begin(switch: Switch, watch: Watch) -> Foreign:
    steady, cuda = watch.steady, switch.torch.cuda

    def begin(root: Foreign) -> bool:
        """Whether this is a backward pass that counts: the outermost, not being captured."""
        if not switch.active:
            return False
        if getattr(cuda, "_initialized", True) and switch.capturing():
            return False
        if not steady.closure and steady.stepping is not None:
            steady.step_raised()
        try:
            watch.backward_begins(root)
        except Exception as error:
            switch.fail(error)
        return True

    return begin


def _total_norm(
    switch: Switch, steady: Steady[Foreign], original: Callable[..., Foreign]
) -> Foreign:
    torch, tensor = switch.torch, switch.torch.Tensor
    inlining, tracing = dynamo.inlining(torch), dynamo.tracing(torch)

    def note(tensors: Foreign, norm: Foreign) -> None:
        if switch.may_look() and isinstance(tensors, (list, tuple)):
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


def _clip(switch: Switch, steady: Steady[Foreign], original: Callable[..., Foreign]) -> Foreign:
    """For torch before 2.7."""

    def clip_grad_norm_(parameters: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        single = isinstance(parameters, switch.torch.Tensor)
        parameters = parameters if single else list(parameters)
        norm = original(parameters, *args, **kwargs)
        if not single and switch.may_look():
            steady.norm = norm
            steady.norm_count = sum([p.grad is not None for p in parameters])
        return norm

    return clip_grad_norm_
