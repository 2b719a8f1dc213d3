"""Whether the first clippings act on the gradients that the optimizer applies."""

from __future__ import annotations

from math import inf, isfinite
from typing import Callable

from . import codes, dynamo
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .patches import Patches
from .switch import Switch


class Clips:
    """`open` until some clippings were right, or wrong, in a row.

    `scaler` is the GradScaler whose scale the gradients still have; None after unscale_() and
    step(). Whether a clipping was of scaled gradients shows when that scaler steps: a program may
    have divided them itself.
    """

    def __init__(self, context: Context) -> None:
        self._context, self._steady = context, context.steady
        self.open = True
        self.scaler: Foreign = None
        self._suspect: tuple[float, Foreign, Foreign, str] | None = None
        self._steps = self._backwards = self._right = 0
        self._rows = {"after-step": 0, "scaled": 0, "nothing": 0}
        self._undivided = 0
        """Steps in a row; below 0 once a scaler, or the program, has divided gradients."""

    def clipped(self, most: float, norm: Foreign, nothing: bool) -> None:
        """A clip to `most` was applied; `norm` before it, None where it was one by value.
        `nothing`: it got no parameter."""
        steady = self._steady
        if steady.stepping is not None or steady.depth or not isfinite(most):
            return
        steps = self._count()
        between, passes = steps - self._steps, steady.backwards - self._backwards
        if not between and not passes:
            self._rows["nothing"] *= nothing
            return  # another part of the parameters
        self._steps, self._backwards, self._suspect = steps, steady.backwards, None
        self._context.tally.clips += 1
        if steps and steady.backwards == steady.stepped_at:
            if between == 1 and passes:  # no step came between it and the next backward()
                self._judge("after-step", most, norm, None, self._context.where())
        elif self.scaler is not None and getattr(self.scaler, "_scale", None) is not None:
            self._suspect = most, norm, self.scaler._scale, self._context.where()
        elif nothing:
            if self._all_have_gradients():  # else those that it leaves out may be frozen
                self._judge("nothing", most, norm, None, self._context.where())
        else:
            self._right += 1
            self.open = self._right < limit.CLIPS
            self._rows = dict.fromkeys(self._rows, 0)

    def scaler_steps(self) -> None:
        """GradScaler.step() begins: it divides what still has the scale."""
        suspect, self._suspect = self._suspect, None
        self.divided()
        if suspect is not None and self.open and self._count() == self._steps:
            self._judge("scaled", *suspect)

    def asked(self) -> None:
        """The program reads the scale: it may divide the gradients itself."""
        self._undivided = -1

    def divided(self) -> None:
        """A scaler divides the gradients."""
        self.scaler, self._undivided = None, -1

    def steps_undivided(self, only: bool) -> None:
        """step() of an optimizer begins, the only one or not, on gradients that were scaled."""
        scale = getattr(self.scaler, "_scale", None)
        self.scaler = None
        if not only or scale is None or self._undivided < 0:
            self._undivided = -1
            return
        self._undivided += 1
        if self._undivided == limit.UNDIVIDED:
            self._context.submit([scale.detach().reshape(())], self._report_undivided)

    def _report_undivided(self, values: list[Foreign]) -> None:
        scale = values[0]
        if scale is not None and scale > 1.0:
            text = (
                f"the gradients still have the loss scale of {scale:g} at step(), "
                f"{limit.UNDIVIDED} steps in a row: the scaler's own step() was never called"
            )
            self._context.warn(codes.SCALE_HOLDS, text, "undivided")

    def _count(self) -> int:
        """Steps of all optimizers."""
        return sum(watch.armed.steps for watch in self._context.watches())

    def _all_have_gradients(self) -> bool:
        trained = [p for watch in self._context.watches() for p in watch.flat]
        return bool(trained) and all(p.grad is not None for p in trained)

    def _judge(self, cause: str, most: float, norm: Foreign, scale: Foreign, where: str) -> None:
        def deliver(values: list[Foreign]) -> None:
            read = dict(zip(names, values))
            size, factor = read.get("norm", inf), read.get("scale", inf)
            wrong = size is not None and factor is not None and self._is_wrong(most, size, factor)
            self._rows[cause] = count = self._rows[cause] + 1 if wrong else 0
            if count == limit.CLIPS:
                self.open = False
                text = _text(cause, most, size, factor) + where
                self._context.warn(codes.CLIPPING_APPLIES, text, cause)

        pairs = {"norm": norm, "scale": scale}
        names = [name for name, value in pairs.items() if value is not None]
        self._context.submit([pairs[name].detach().reshape(()) for name in names], deliver)

    @staticmethod
    def _is_wrong(most: float, norm: float, scale: float) -> bool:
        """Whether it cut, or had nothing to cut; a limit that was multiplied by the scale fits."""
        if scale == inf:
            return norm > most or norm == 0.0
        return norm > most and scale >= limit.CLIP_SCALE * max(most, 0.1)


def _text(cause: str, most: float, norm: float, scale: float) -> str:
    row = f"{limit.CLIPS} steps in a row"
    if cause == "scaled":
        return (
            f"gradients that still have the loss scale of {scale:g} are clipped to {most:g}, {row}:"
            f" step() divides by the scale, which leaves a norm of {most / scale:.2g}"
        )
    if cause == "nothing":
        return f"the clipping to {most:g} gets no parameter, {row}"
    if norm == 0.0:
        return f"gradients are clipped to {most:g} where there are none, before backward(), {row}"
    size = "" if norm == inf else f"; their norm was {norm:.3g} when they were applied"
    return f"gradients are clipped to {most:g} after the step() that applied them, {row}{size}"


def install(switch: Switch, patches: Patches, clips: Clips) -> None:
    """Wrap what clips by norm and by value."""
    utils = switch.torch.nn.utils
    places = (utils.clip_grad, "_clip_grads_with_norm_"), (utils.clip_grad, "clip_grad_value_")
    for owner, name in (*places, (utils, "clip_grad_value_")):
        patches.replace(owner, name, lambda original: _wrap(switch, clips, original))


def _wrap(switch: Switch, clips: Clips, original: Callable[..., Foreign]) -> Foreign:
    """clip_grad_value_(parameters, most), or the part of clip_grad_norm_ that gets the norm."""
    torch = switch.torch
    inlining, tracing = dynamo.inlining(torch), dynamo.tracing(torch)

    def note(most: Foreign, norm: Foreign, held: Foreign) -> None:
        if switch.may_look() and isinstance(most, (int, float)):
            norm = norm if isinstance(norm, torch.Tensor) else None
            nothing = isinstance(held, list) and not held
            switch.safely_without_graph(clips.clipped, float(most), norm, nothing)

    untraced_note = dynamo.without_frames(torch, note)

    def clip(*args: Foreign, **kwargs: Foreign) -> Foreign:
        if inlining():
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        if clips.open:
            most = args[1] if len(args) > 1 else kwargs.get("clip_value", kwargs.get("max_norm"))
            norm = args[2] if len(args) > 2 else kwargs.get("total_norm")
            held = args[0] if args else kwargs.get("parameters")
            (note if tracing() is None else untraced_note)(most, norm, held)
        return result

    return clip
