"""The model around an optimizer's parameters, looked at when they are: buffers and mode; and the
optimizers that never step."""

from __future__ import annotations

import math
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Callable, List

from . import codes
from . import thresholds as limit
from .foreign import Foreign
from .layer_looks import LayerLooks
from .names import objects_of
from .parameters import local
from .records import FAIL, WARN, Alarm

if TYPE_CHECKING:
    from torch import Tensor

    from .optimizer_watch import OptimizerWatch

Add = Callable[[Alarm, "OptimizerWatch"], None]
STATISTICS = ("running_mean", "running_var")
"""Buffers that are never infinite; a mask may hold -inf."""


class ModelLooks:
    """The largest model in memory that holds parameters of the first optimizer.

    `evaluating` counts looks in a row in which no module was in training mode.
    """

    def __init__(self, torch: ModuleType, submit: Foreign, add: Add) -> None:
        self.torch, self._submit, self._add = torch, submit, add
        self._layers = LayerLooks(torch, submit, add)
        self._model: Foreign = None
        self._others: list[Foreign] = []
        self._idle: dict[int, Foreign] = {}
        self._finite: set[str] = set()
        self._left_out: dict[str, Foreign] = {}
        """Name -> some values of a parameter that no optimizer holds, at the look before."""
        self.looks = self.evaluating = 0
        self.buffers = 0
        """Of floating point, at the last look."""
        self.modes = 0
        """Looks at a model in which the mode makes a difference."""

    def look(self, watch: OptimizerWatch, stepping: list[OptimizerWatch]) -> None:
        """After a step of `watch`; `stepping` are all that have stepped."""
        if self.looks == 0:
            self._find(watch)
        self.looks += 1
        model = self._model() if self._model is not None else None
        if model is not None:
            self._look_at_buffers(model, watch)
        if watch.effective >= limit.MODES_FROM:
            if model is not None:
                self._look_at_mode(model, watch)
                self._layers.look(model, watch)
                if watch.effective >= limit.LEFT_OUT_FROM:
                    self._look_at_left_out(model, watch, stepping)
            if watch.effective >= limit.IDLE_FROM:
                self._look_at_others(watch, stepping)

    def _find(self, watch: OptimizerWatch) -> None:
        model, optimizers = objects_of(self.torch, watch.flat)
        self._model = None if model is None else weakref.ref(model)
        self._others = [weakref.ref(each) for each in optimizers]

    def _look_at_buffers(self, model: Foreign, watch: OptimizerWatch) -> None:
        buffers = {
            name: local(buffer)
            for name, buffer in model.named_buffers()
            if buffer.is_floating_point() and buffer.device.type in ("cpu", "cuda", "mps")
        }
        self.buffers = len(buffers)
        kinds: dict[Foreign, list[str]] = {}
        for name in list(buffers)[: limit.MOST_BUFFERS]:
            if buffers[name].numel():
                kinds.setdefault((buffers[name].device, buffers[name].dtype), []).append(name)
        for names in kinds.values():
            self._submit(
                [self._sizes([buffers[name] for name in names])], self._deliver(names, watch)
            )

    def _sizes(self, buffers: List[Tensor]) -> Foreign:
        """The largest absolute value of each, as one vector; NaN where there is one."""
        return self.torch.stack([b.abs().max().float() for b in buffers])

    def _deliver(self, names: list[str], watch: OptimizerWatch) -> Foreign:
        def deliver(values: list[Foreign]) -> None:
            sizes = values[0]
            if sizes is not None:
                self._judge_buffers(dict(zip(names, sizes)), watch)

        return deliver

    def _judge_buffers(self, sizes: dict[str, float], watch: OptimizerWatch) -> None:
        statistics = {name for name in sizes if name.rpartition(".")[2] in STATISTICS}
        bad = [
            name
            for name, size in sizes.items()
            if not math.isfinite(size) and (name in statistics or name in self._finite)
        ]
        self._finite |= {name for name, size in sizes.items() if math.isfinite(size)}
        if bad:
            self._finite.difference_update(bad)
            more = f" and {len(bad) - 2} more" if len(bad) > 2 else ""
            text = (
                f"{len(bad)} of {len(sizes)} buffers of the model are not finite "
                f"({', '.join(bad[:2])}{more}): evaluation uses them, and a checkpoint holds them"
            )
            self._add(Alarm(codes.BUFFERS_FINITE, FAIL, watch.steps, text, "", watch.index), watch)

    def _look_at_mode(self, model: Foreign, watch: OptimizerWatch) -> None:
        modules = list(model.modules())
        affected = [m for m in modules if _mode_matters(self.torch, m)]
        self.modes += bool(affected)
        evaluates = bool(affected) and not any(m.training for m in modules)
        self.evaluating = self.evaluating + 1 if evaluates else 0
        if self.evaluating == limit.MODE_LOOKS:
            kinds = sorted({type(m).__name__ for m in affected})
            text = (
                f"every module of {type(model).__name__} is in evaluation mode at step(), also "
                f"{len(affected)} of {', '.join(kinds[:3])}: they drop nothing and gather no "
                "statistics"
            )
            self._add(Alarm(codes.TRAINING_MODE, WARN, watch.steps, text, "", watch.index), watch)

    def _look_at_others(self, watch: OptimizerWatch, stepping: list[OptimizerWatch]) -> None:
        """Optimizers that have never stepped, although backward passes reach their parameters."""
        trained = {id(p) for each in stepping for p in each.flat}
        known = {id(each.optimizer()) for each in stepping}
        for optimizer in filter(None, (each() for each in self._others)):
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            reached = [p for p in parameters if p.grad is not None]
            if id(optimizer) in known or not reached or any(id(p) in trained for p in parameters):
                continue
            gradient = reached[0].grad
            version = gradient.data_ptr(), gradient._version
            before = self._idle.setdefault(id(optimizer), version)
            if before is not None and before != version:
                self._idle[id(optimizer)] = None
                text = (
                    f"{type(optimizer).__name__} with {len(parameters)} parameters has never "
                    f"stepped: backward passes reach {len(reached)} of them, and no other "
                    "optimizer has them"
                )
                self._add(
                    Alarm(codes.STEPS_APPLIED, WARN, watch.steps, text, "never-stepped"), watch
                )

    def _look_at_left_out(
        self, model: Foreign, watch: OptimizerWatch, stepping: list[OptimizerWatch]
    ) -> None:
        """Parameters that get gradients, and that neither an optimizer nor the loop changes."""
        optimizers = [each() for each in self._others]
        groups = [group for each in filter(None, optimizers) for group in each.param_groups]
        held = {id(p) for each in stepping for p in each.flat}
        held |= {id(p) for group in groups for p in group["params"]}
        left = {
            name: local(p).reshape(-1)[: limit.SAMPLED]
            for name, p in model.named_parameters()
            if p.requires_grad and p.grad is not None and p.numel() and id(p) not in held
        }
        names = [name for name in left if name in self._left_out][: limit.MOST_LEFT_OUT]
        if names:
            distances = [(left[n] - self._left_out[n]).abs().max().float() for n in names]
            kind, count = type(model).__name__, len(left)

            def deliver(values: list[Foreign]) -> None:
                if values[0] is not None and all(distance == 0.0 for distance in values[0]):
                    text = (
                        f"{count} parameters of {kind} get gradients, and no optimizer holds them "
                        f"({', '.join(names[:2])}{', ...' if count > 2 else ''}): they stay as "
                        "they are"
                    )
                    code = codes.OPTIMIZER_HAS_GRADIENTS
                    alarm = Alarm(code, WARN, watch.steps, text, "left-out", watch.index)
                    self._add(alarm, watch)

            self._submit([self.torch.stack(distances)], deliver)
        self._left_out = {name: value.clone() for name, value in left.items()}


def _mode_matters(torch: ModuleType, module: Foreign) -> bool:
    """Whether a module computes something else in training mode."""
    dropout, norm = torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm
    if isinstance(module, dropout):
        return bool(module.p > 0)
    return isinstance(module, norm) and bool(module.track_running_stats)
