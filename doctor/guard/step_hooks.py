"""Before and after the step of every torch.optim optimizer."""

from __future__ import annotations

import weakref
from math import inf
from typing import TYPE_CHECKING, Callable

from . import dynamo, gradient_norms
from .foreign import Foreign
from .patches import Patches
from .protection import Protection
from .rates import number
from .steady import LOGGED_SECONDS, MOST_LOGGED
from .switch import Switch, raise_of_a_signal
from .watch import Watch

if TYPE_CHECKING:
    from torch.optim import Optimizer


def install(switch: Switch, patches: Patches, watch: Watch, protection: Protection | None) -> None:
    """The hooks that torch.optim calls for all optimizers."""
    from torch.optim import optimizer as module

    patches.replace(module.Optimizer, "add_param_group", lambda own: _grouped(switch, watch, own))
    pre = getattr(module, "register_optimizer_step_pre_hook", None)
    post = getattr(module, "register_optimizer_step_post_hook", None)
    if pre is None or post is None:
        return
    handles = [
        pre(_before_steady(switch, watch, protection)),
        post(_after_steady(switch, watch, protection)),
    ]
    patches.undo.extend(handle.remove for handle in handles)


def _grouped(switch: Switch, watch: Watch, original: Callable[..., Foreign]) -> Foreign:
    """Notes the learning rate of each group that an optimizer gets."""
    made = watch.steady.groups_made

    def note(optimizer: Optimizer) -> None:
        rates = made.setdefault(optimizer, [])
        rates.append(number(optimizer.param_groups[-1].get("lr")))

    def add_param_group(self: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        result = original(self, *args, **kwargs)
        switch.safely(note, self)
        return result

    return add_param_group


def _untraced(switch: Switch, function: Callable[..., Foreign]) -> Foreign:
    """The function, whose frames torch.compile does not examine where it is at work."""
    tracing, disabled = dynamo.tracing(switch.torch), dynamo.without_frames(switch.torch, function)

    def call(*args: Foreign) -> None:
        if tracing() is None:
            function(*args)
        else:
            disabled(*args)

    return dynamo.without_frame(switch.torch, call)


def _before_steady(switch: Switch, watch: Watch, protection: Protection | None) -> Foreign:
    """Logs a step on which no rule can say anything."""
    steady = watch.steady
    armed, before = steady.armed, _untraced(switch, _before(switch, watch, protection))
    skips, numbers, log = _skips(switch, watch), _numbers(switch, watch), _log(switch, watch)

    def hook(optimizer: Optimizer, args: Foreign, kwargs: Foreign) -> None:
        found = None
        plain = steady.stepping is None and not kwargs and len(args) == 1
        try:
            if plain and steady.skips is not None and skips(steady.skips, optimizer):
                return
            one = armed.get(id(optimizer))
            if plain and one is not None and one.steps + 1 < one.until:
                groups = optimizer.param_groups
                if one.backwards != steady.backwards and len(groups) == one.groups:
                    found = numbers(one, groups)
        except Exception as error:  # the complete way handles it, or raises it again
            raise_of_a_signal(error)
        if found is None:
            before(optimizer, args, kwargs)
        else:
            log(one, *found)

    return dynamo.without_frame(switch.torch, hook)


def _skips(switch: Switch, watch: Watch) -> Foreign:
    steady = watch.steady

    def skips(one: Foreign, optimizer: Optimizer) -> bool:
        """Whether a step whose numbers are not read is like the one before; it is counted then.

        Rates that are the same objects as before need no look.
        """
        backwards, groups = steady.backwards, optimizer.param_groups
        if (
            one.key != id(optimizer)
            or one.backwards == backwards
            or steady.losses
            or len(groups) != one.groups
        ):
            return False
        for group, rate in zip(groups, one.rates):
            if group["lr"] is not rate:
                return False
        one.steps = step = one.steps + 1
        one.backwards = steady.stepped_at = backwards
        if step + 1 >= one.next_read:
            steady.skips = None
        steady.stepping, steady.running = one.optimizer, one.key
        return True

    return dynamo.without_frame(switch.torch, skips)


def _numbers(switch: Switch, watch: Watch) -> Foreign:  # noqa: C901 - one frame, see below
    steady, values = watch.steady, watch.values
    tensor, fp32, hold_steady = switch.torch.Tensor, switch.torch.float32, values.hold_steady
    norm_of, flatten = switch.torch.linalg.vector_norm, gradient_norms.flatten(switch.torch)

    def numbers(one: Foreign, groups: Foreign) -> Foreign:  # noqa: C901 - a frame costs 0.1 us
        """Learning rates and gradient norm (None: not to be read) of a step that may be logged;
        None for another one."""
        rates = []
        for group in groups:
            rate = group["lr"]
            if type(rate) is not float or not rate > 0.0:
                return None
            rates.append(rate)
        if steady.skips is not None:
            return None if steady.losses else (rates, None)
        if not one.clearing.cleared or one.bad_losses != steady.bad_losses:
            return None
        total = steady.norm
        if total is None:
            gradients = []
            for place, index in one.few:
                gradients.append(groups[place]["params"][index].grad)
            total = norm_of(flatten(gradients), dtype=fp32)
        elif steady.norm_count != one.present or one.clearing.sample().grad is None:
            return None
        if type(total) is not tensor:
            return None
        on_cpu = total.is_cpu and not values.late
        norm = total.item() if on_cpu else hold_steady(total)
        if norm is None or (type(norm) is float and not 0.0 < norm < inf):
            return None
        return rates, norm

    return dynamo.without_frame(switch.torch, numbers)


def _log(switch: Switch, watch: Watch) -> Foreign:
    steady, pending = watch.steady, watch.values.pending

    def log(one: Foreign, rates: Foreign, norm: Foreign) -> None:
        """Note a step that begins, to be judged later."""
        now, entries, losses = steady.clock(), steady.log, steady.losses
        step, backwards = one.steps + 1, steady.backwards
        if norm is not None:
            one.read_at = step
            one.next_read = next_read = step + steady.every
            if next_read > one.until:
                one.next_read = one.until
            one.clearing.cleared = False
            steady.uncleared.append(one.clearing)
            steady.norm = None
            if losses:
                steady.last_losses, steady.losses = losses, []
            if not one.clearing.set_to_none:
                steady.full = True  # what the step leaves must be noted
        numbers = [] if norm is None else losses or steady.last_losses
        entries.append((one, step, numbers, norm, rates, backwards - one.backwards, now))
        one.steps, one.rates = step, rates
        one.backwards = steady.stepped_at = backwards
        steady.skips = one if step + 1 < one.next_read else None
        if pending or len(entries) >= MOST_LOGGED or now - entries[0][-1] > LOGGED_SECONDS:
            steady.full = True
        steady.stepping, steady.running = one.optimizer, one.key

    return dynamo.without_frame(switch.torch, log)


def _before(switch: Switch, watch: Watch, protection: Protection | None) -> Foreign:
    cuda, steady = switch.torch.cuda, watch.steady

    def before(optimizer: Optimizer, args: Foreign, kwargs: Foreign) -> None:
        running = steady.stepping
        if not switch.active or (running is not None and running() is not None):
            return  # the step of a step: a subclass that calls super(), or an optimizer inside
        if getattr(cuda, "_initialized", True) and switch.capturing():
            return
        steady.closure = closure = bool(kwargs or len(args) > 1) and _has_closure(args, kwargs)
        steady.stepping, steady.running = weakref.ref(optimizer), 0
        try:
            watch.step_begins(optimizer, closure)
            if protection is not None:
                protection.begin(optimizer)
        except Exception as error:
            switch.fail(error)

    return before


def _after_steady(switch: Switch, watch: Watch, protection: Protection | None) -> Foreign:
    """Ends a step that was logged; the watch hears of it when the log is full."""
    steady, after = watch.steady, _untraced(switch, _after(switch, watch, protection))

    def hook(optimizer: Optimizer, args: Foreign, kwargs: Foreign) -> None:
        if steady.running != id(optimizer):
            after(optimizer, args, kwargs)
            return
        steady.stepping, steady.running = None, 0
        if steady.full:
            after(optimizer, args, kwargs, True)

    return dynamo.without_frame(switch.torch, hook)


def _after(  # noqa: C901 - two functions
    switch: Switch, watch: Watch, protection: Protection | None
) -> Foreign:
    cuda = switch.torch.cuda
    steady, alarms = watch.steady, watch.alarms

    def end(optimizer: Optimizer, logged: bool) -> None:
        if logged:
            watch.step_logged(optimizer)
            return
        if protection is not None:
            protection.end(optimizer)
        if switch.active and not (getattr(cuda, "_initialized", True) and switch.capturing()):
            watch.step_ends(optimizer, steady.closure)

    def after(optimizer: Optimizer, args: Foreign, kwargs: Foreign, logged: bool = False) -> None:
        running = steady.stepping
        if not logged and (running is None or running() is not optimizer):
            return
        steady.stepping = None
        try:
            end(optimizer, logged)
        except Exception as error:
            switch.fail(error)
        if alarms.stop_wanted:
            watch.end_if_wanted()

    return after


def _has_closure(args: Foreign, kwargs: Foreign) -> bool:
    """Whether step() got a closure, in which the gradients are computed."""
    return any(callable(value) for value in (*args[1:], *kwargs.values()))
