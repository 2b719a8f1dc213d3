"""Once, at the first alarm: what is not finite, where it comes from, and how to get back there.

This may wait for the device; it happens once per code.
"""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Callable

from . import codes, loss_graphs, origins
from . import thresholds as limit
from .batches import Batches
from .foreign import Foreign
from .parameters import local
from .records import FAIL, Alarm, Step
from .writer import Writer, plain

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch

NON_FINITE = (codes.TRAINING_LOSS_FINITE, codes.GRADIENTS_FINITE)
CUT_OFF = (codes.ONES_MOVE, codes.PARAMETERS_REACHED)
LARGEST = 5


class Diagnosis:
    """Writes the history, the batches and the largest gradients at the first alarm.

    `recent` returns the last steps.
    """

    def __init__(
        self, torch: ModuleType, writer: Writer, batches: Batches, recent: Callable[[], list[Step]]
    ) -> None:
        self.torch = torch
        self.writer = writer
        self.batches = batches
        self.recent = recent
        self._written = False
        self._blamed = False
        self._found: tuple[str, str] | None = None
        self._bad_weights: list[str] | None = None
        self._reason: tuple[str, str] | None = None
        """What made the first loss that is not finite: a cause, and a text; "" where its graph
        does not show it."""
        self._seen = origins.NONE
        """Beside which parameter its graph first keeps a value that is not finite."""
        self._growth: str | None = None
        self._sums = False

    def write(self, alarm: Alarm, optimizer: OptimizerWatch | None) -> str:
        """Record what is known; return what to add to the alarm's line."""
        addition = ""
        if alarm.code in NON_FINITE and not self._blamed:
            self._blamed = True
            origin, addition = self.origin(optimizer)
            self.writer.write(
                "origin", code=alarm.code, step=alarm.step, origin=origin, text=addition
            )
            addition = f"; {addition}" if addition else ""
        if not self._written:
            self._written = True
            self._write_context(alarm, optimizer)
        return addition

    def origin(self, optimizer: OptimizerWatch | None) -> tuple[str, str]:
        """Where the first non-finite value comes from, as it was when this was first asked."""
        if self._found is None:
            self._found = self._origin(optimizer)
        return self._found

    def loss_is_not_finite(self, loss: Foreign) -> None:
        """The first one's graph is read while it is there."""
        if self._reason is None:
            node = getattr(loss, "grad_fn", None)
            self._reason = ("", "") if node is None else loss_graphs.not_finite(node)
            self._sums = node is not None and loss_graphs.is_sum(node)
            self._seen = origins.NONE if node is None else origins.first_seen(node)

    def with_cause(self, alarm: Alarm, optimizer: OptimizerWatch | None) -> Alarm:
        """The alarm, with what made the loss or its derivative, or with the steps before it where
        they grew."""
        cause, _ = self._reason or ("", "")
        if self._growth is None:
            self._growth = "" if cause not in ("", "constant") else _growth(self.recent())
        if (low := _fallen(self.recent())) and (self._growth or not cause):
            alarm.cause = "unbounded"
            alarm.text += f"; the loss fell to {low:.3g}: nothing bounds it from below"
        elif self._growth:
            self._diverged(alarm)
        elif alarm.cause == "masked" and cause:
            alarm.cause = cause  # a logarithm of 0 or less, of which the gradients are finite
        elif not alarm.cause:
            origin = "" if cause else self.origin(optimizer)[0]
            if origin == "weights" and self._divides_by_0(optimizer):
                alarm.cause, alarm.text = "half", f"{alarm.text}; the weights are float16"
            else:
                alarm.cause = {"backward": "derivative", "data": "data"}.get(origin, cause)
        return alarm

    def _diverged(self, alarm: Alarm) -> None:
        """What made the steps before grow."""
        alarm.cause, alarm.text = "diverged", f"{alarm.text}; {self._growth}"
        if sum(step.uncleared for step in self.recent()) >= limit.UNCLEARED:
            alarm.cause = "uncleared"
            alarm.text += ". Nothing cleared the gradients between steps: each adds to the last"
        elif self._sums:
            alarm.cause = "summed"
            alarm.text += ". The loss is a sum over the samples: its gradients grow with them"

    def _divides_by_0(self, optimizer: OptimizerWatch | None) -> bool:
        """Adam has stepped, and all weights that are not finite are float16."""
        steps = self.recent()
        if optimizer is None or not optimizer.name.startswith("Adam") or steps[-1].step < 2:
            return False
        bad = [p for p in optimizer.flat if _bad(self.torch, [("", p)])]
        return bool(bad) and all(p.dtype == self.torch.float16 for p in bad)

    def with_weights(self, alarm: Alarm, optimizer: OptimizerWatch | None) -> Alarm:
        """The alarm for missing labels, unless weights that are not finite explain the loss.

        A hook that replaces NaN in the gradients makes them look like those of an empty batch.
        """
        if self._bad_weights is None:
            parameters = _parameters(self.torch, optimizer)
            self._bad_weights = _bad(self.torch, parameters)
        if not self._bad_weights:
            return alarm
        text = (
            f"the loss is nan and all gradients are 0; {len(self._bad_weights)} parameters are not "
            f"finite, first {self._bad_weights[0]}"
        )
        return Alarm(codes.TRAINING_LOSS_FINITE, FAIL, alarm.step, text, "", alarm.optimizer)

    def _write_context(self, alarm: Alarm, optimizer: OptimizerWatch | None) -> None:
        steps = [
            {
                "s": s.step,
                "o": s.optimizer,
                "loss": plain(s.loss),
                "norm": plain(s.norm),
                "rate": plain(s.rate),
            }
            for s in self.recent()
        ]
        self.writer.write("history", steps=steps)
        self.writer.write("batches", batches=self.batches.describe())
        if optimizer is not None:
            self.writer.write("shares", shares=self._shares(optimizer))

    def _shares(self, optimizer: OptimizerWatch) -> list[list[Foreign]]:
        """The parameters with the largest gradients and their share of the squared norm."""
        with_gradient = [(i, p) for i, p in enumerate(optimizer.flat) if p.grad is not None]
        squares = {
            index: float(local(p.grad).float().norm()) ** 2
            for index, p in with_gradient
            if not p.grad.is_sparse
        }
        total = sum(squares.values())
        if not total or not math.isfinite(total):
            return []
        names = optimizer.names
        largest = sorted(squares, key=lambda index: -squares[index])[:LARGEST]
        return [[names.get(i, f"parameter {i}"), plain(squares[i] / total)] for i in largest]

    def _origin(self, optimizer: OptimizerWatch | None) -> tuple[str, str]:
        """Where the first non-finite value comes from: one word, and a sentence."""
        history = self.recent()
        first = _first_bad(history)
        current = history[-1] if history else None
        if first is not None and current is not None and first.step < current.step:
            return "earlier", f"first non-finite value: step {first.step}"
        if where := self.batches.non_finite():
            return "data", f"first non-finite value: the batch ({where})"
        parameters = _parameters(self.torch, optimizer)
        on_cpu = all(p.device.type == "cpu" for _, p in parameters)
        if optimizer is not None and optimizer.steady.closure:
            return "step", "the losses and gradients were computed within step(): not known where"
        weights = _bad(self.torch, [(name, p) for name, p in parameters])
        if weights and on_cpu:
            when = "the first step" if current is None or current.step == 1 else "this step"
            return "weights", (
                f"parameters that were non-finite before {when}: {len(weights)}, first {weights[0]}"
            )
        if first is None or any(not math.isfinite(loss) for loss in first.losses):
            if self._seen[2]:
                return "data", (
                    "first non-finite value: the batch, or what untrained layers made of it: "
                    f"{self._seen[2]}{self._layer(parameters)}"
                )
            reason = f", {self._reason[1]}" if self._reason and self._reason[1] else ""
            reason += self._layer(parameters)
            return "forward", f"first non-finite value: the forward pass{reason}" + (
                "; the parameters before it are finite" if on_cpu and parameters else ""
            )
        of_step = f"backward pass of step {first.step}; its loss is finite"
        gradients = _bad(
            self.torch, [(name, p.grad) for name, p in parameters if p.grad is not None]
        )
        if not gradients:
            return "backward", f"first non-finite value: the {of_step}"
        return "backward", (
            f"first non-finite value: the {of_step}, {len(gradients)} of "
            f"{len(parameters)} gradients are not, nearest to the loss: {gradients[-1]}"
        )

    def _layer(self, parameters: list[tuple[str, Foreign]]) -> str:
        """The layer beside the first value that is seen not to be finite."""
        how, found, _ = self._seen
        parameter = None if found is None else found()
        name = next((name for name, each in parameters if each is parameter), "")
        module = name.rpartition(".")[0]
        layer = f'module "{module}"' if module else f'parameter "{name}"'
        where = {"in": "what {} gets", "after": "what is computed after {}"}.get(how, "")
        return f", seen first in {where.format(layer)}" if name and where else ""


def checkpoint_warned() -> bool:
    """Whether torch.utils.checkpoint has warned that none of its inputs needs a gradient: Python
    notes in a module which warnings it printed."""
    printed = getattr(sys.modules.get("torch.utils.checkpoint"), "__warningregistry__", {})
    return any("inputs have requires_grad=True" in str(key) for key in printed)


def _first_bad(history: list[Step]) -> Step | None:
    """The first step with a non-finite loss or norm."""
    for step in history:
        values = [*step.losses, *([step.norm] if step.norm is not None else [])]
        if not all(map(math.isfinite, values)) and not step.skipped:
            return step
    return None


def _growth(history: list[Step]) -> str:
    """How the gradients or losses grew in the last steps before a value that is not finite, ""
    where they did not."""
    first = _first_bad(history)
    optimizer = history[-1].optimizer if first is None and history else first and first.optimizer
    own = [s for s in history if s.optimizer == optimizer]
    before = [s for s in own if first is None or s.step < first.step][-limit.GROWTH_STEPS :]
    if not before or any(s.scaled for s in before):
        return ""
    norms = [s.norm for s in before if s.norm]
    losses = [abs(loss) for s in [*before, *([first] if first else [])] for loss in s.losses[:1]]
    if len(norms) >= limit.GROWTH_LEAST:
        least, steep = min(norms), 1.0
        name, grown = "gradient norm", norms[norms.index(least) :]
    else:  # each step of a deep model multiplies it: none or few norms are finite
        name, grown, steep = "loss", list(filter(math.isfinite, losses))[-3:], limit.STEEP
        is_nan = first is not None and any(map(math.isnan, first.losses))
        if is_nan or (before[-1].rate or 0.0) < limit.STEEP_RATE:  # the inputs, not the steps
            return ""
    if len(grown) < 3 or not 0 < limit.GROWTH * grown[0] <= grown[-1]:
        return ""
    if grown[-2] < steep * grown[-3] or grown[-1] < steep * grown[-2]:
        return ""
    return (
        f"the {name} grew from {grown[0]:.3g} to {grown[-1]:.3g} in the {len(grown)} steps before, "
        f"at a learning rate of {before[-1].rate or 0.0:.3g}: the steps are too long"
    )


def _fallen(history: list[Step]) -> float:
    """The lowest loss, where it is below 0 by far more than the size of the first; 0 elsewhere."""
    losses = [loss for step in history for loss in step.losses[:1] if math.isfinite(loss)]
    low = min(losses, default=0.0)
    return low if losses and low < -limit.GROWTH * max(1.0, abs(losses[0])) else 0.0


def _parameters(torch: ModuleType, optimizer: OptimizerWatch | None) -> list[tuple[str, Foreign]]:
    """Names and parameters in the order of the modules."""
    if optimizer is None:
        return []
    names = optimizer.names
    flat = optimizer.flat
    order = sorted(
        range(len(flat)), key=lambda i: list(names).index(i) if i in names else len(names)
    )
    return [(names.get(i, f"parameter {i}"), flat[i]) for i in order]


def _bad(torch: ModuleType, tensors: list[tuple[str, Foreign]]) -> list[str]:
    """The names of the tensors that are not finite."""
    bad = []
    for name, tensor in tensors:
        if tensor.is_sparse or not local(tensor).numel():
            continue
        size = torch._foreach_norm([local(tensor)], float("inf"))[0]
        if not math.isfinite(float(size)):
            bad.append(name)
    return bad
