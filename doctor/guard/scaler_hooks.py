"""GradScaler: the loss before it is scaled, steps that it skips, its scale."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Callable

from . import dynamo
from .foreign import Foreign

if TYPE_CHECKING:
    from torch.optim import Optimizer

if TYPE_CHECKING:
    from .hooks import Hooks


def install(hooks: Hooks) -> None:
    """Wrap scale, step and update of GradScaler, and of FSDP's where it has been imported."""
    torch = hooks.torch
    amp = getattr(torch, "amp", None)
    scaler = getattr(amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    homes = [next(c for c in scaler.__mro__ if "update" in c.__dict__)]
    sharded = sys.modules.get("torch.distributed.fsdp.sharded_grad_scaler")
    if sharded is not None:
        homes.append(sharded.ShardedGradScaler)
    for home in homes:
        hooks.replace(home, "scale", lambda original: _scale(hooks, original))
        hooks.replace(home, "step", lambda original: _step(hooks, original))
        hooks.replace(home, "update", lambda original: _update(hooks, original))


def _untraced(hooks: Hooks, function: Callable[..., None]) -> Callable[..., None]:
    """The function, untraced once torch._dynamo has been imported, which the guard does not do."""
    disabled = dynamo.without_frames(hooks.torch, function)

    def call(*args: Foreign) -> None:
        (disabled if "torch._dynamo" in sys.modules else function)(*args)

    return call


def _scale(hooks: Hooks, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
    def note(loss: Foreign, scaled: Foreign) -> None:
        if hooks.may_look() and isinstance(loss, hooks.torch.Tensor) and scaled is not loss:
            hooks.safely(hooks.watch.scaling.loss_scaled, loss, scaled)

    note = _untraced(hooks, note)

    def scale(scaler: Foreign, outputs: Foreign) -> Foreign:
        result = original(scaler, outputs)
        note(outputs, result)
        return result

    return scale


def _step(hooks: Hooks, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
    def note(action: Foreign, scaler: Foreign, optimizer: Optimizer) -> None:
        if hooks.may_look() and scaler.is_enabled():
            hooks.safely_without_graph(action, optimizer)

    note = _untraced(hooks, note)

    def step(scaler: Foreign, optimizer: Optimizer, *args: Foreign, **kwargs: Foreign) -> Foreign:
        note(hooks.watch.scaling.step_begins, scaler, optimizer)
        result = original(scaler, optimizer, *args, **kwargs)
        note(hooks.watch.scaling.step_ends, scaler, optimizer)
        return result

    return step


def _update(hooks: Hooks, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
    def note(scaler: Foreign) -> None:
        scale = getattr(scaler, "_scale", None)
        if hooks.may_look() and scaler.is_enabled() and scale is not None:
            initial = getattr(scaler, "_init_scale", 65536.0)
            hooks.safely_without_graph(hooks.watch.scaling.updated, scale, initial)

    note = _untraced(hooks, note)

    def update(scaler: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        result = original(scaler, *args, **kwargs)
        note(scaler)
        return result

    return update
