"""GradScaler: the loss before it is scaled, steps that it skips, its scale."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Callable

from . import dynamo
from .foreign import Foreign
from .patches import Patches
from .switch import Switch
from .watch import Watch

if TYPE_CHECKING:
    from torch.optim import Optimizer


def install(switch: Switch, patches: Patches, watch: Watch) -> None:
    """Wrap scale, step and update of GradScaler, and of FSDP's where it has been imported."""
    torch = switch.torch
    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    homes = [next(c for c in scaler.__mro__ if "update" in c.__dict__)]
    sharded = sys.modules.get("torch.distributed.fsdp.sharded_grad_scaler")
    if sharded is not None:
        homes.append(sharded.ShardedGradScaler)
    for home in homes:
        patches.replace(home, "scale", lambda original: _scale(switch, watch, original))
        patches.replace(home, "unscale_", lambda original: _noting(watch.clips.divided, original))
        patches.replace(home, "get_scale", lambda original: _noting(watch.clips.asked, original))
        patches.replace(home, "step", lambda original: _step(switch, watch, original))
        patches.replace(home, "update", lambda original: _update(switch, watch, original))


def _untraced(switch: Switch, function: Callable[..., None]) -> Callable[..., None]:
    """The function, untraced once torch._dynamo has been imported, which the guard does not do."""
    disabled = dynamo.without_frames(switch.torch, function)

    def call(*args: Foreign) -> None:
        (disabled if "torch._dynamo" in sys.modules else function)(*args)

    return call


def _scale(switch: Switch, watch: Watch, original: Callable[..., Foreign]) -> Foreign:
    def note(scaler: Foreign, loss: Foreign, scaled: Foreign) -> None:
        if switch.may_look() and isinstance(loss, switch.torch.Tensor) and scaled is not loss:
            switch.safely(watch.scaling.loss_scaled, loss, scaled, scaler)

    note = _untraced(switch, note)

    def scale(scaler: Foreign, outputs: Foreign) -> Foreign:
        result = original(scaler, outputs)
        note(scaler, outputs, result)
        return result

    return scale


def _noting(note: Callable[[], None], original: Callable[..., Foreign]) -> Foreign:
    def call(scaler: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        note()
        return original(scaler, *args, **kwargs)

    return call


def _step(switch: Switch, watch: Watch, original: Callable[..., Foreign]) -> Foreign:
    def note(action: Foreign, scaler: Foreign, optimizer: Optimizer) -> None:
        if switch.may_look() and scaler.is_enabled():
            switch.safely_without_graph(action, optimizer)

    note = _untraced(switch, note)

    def step(scaler: Foreign, optimizer: Optimizer, *args: Foreign, **kwargs: Foreign) -> Foreign:
        note(watch.scaling.scaled_step_begins, scaler, optimizer)
        result = original(scaler, optimizer, *args, **kwargs)
        note(watch.scaling.scaled_step_ends, scaler, optimizer)
        return result

    return step


def _update(switch: Switch, watch: Watch, original: Callable[..., Foreign]) -> Foreign:
    def note(scaler: Foreign) -> None:
        scale = getattr(scaler, "_scale", None)
        if switch.may_look() and scaler.is_enabled() and scale is not None:
            initial = getattr(scaler, "_init_scale", 65536.0)
            switch.safely_without_graph(watch.scaling.scale_updated, scale, initial)

    note = _untraced(switch, note)

    def update(scaler: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        result = original(scaler, *args, **kwargs)
        note(scaler)
        return result

    return update
