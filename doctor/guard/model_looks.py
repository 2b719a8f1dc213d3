"""The model around an optimizer's parameters, looked at when they are: buffers and mode; and the
optimizers that never step."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, List

from . import codes
from . import thresholds as limit
from .context import Context, first_two
from .followers import Followers
from .foreign import Foreign
from .layer_looks import LayerLooks
from .left_out import LeftOut
from .modes import mode_matters
from .names import objects_of
from .parameters import DEVICES, local
from .records import FAIL, NOTE, WARN
from .values import unless_lost

if TYPE_CHECKING:
    from torch import Tensor

    from .optimizer_watch import OptimizerWatch

STATISTICS = ("running_mean", "running_var")
"""Buffers that are never infinite; a mask may hold -inf."""


class ModelLooks:
    """The largest model in memory that holds parameters of the leading optimizer: the first, until
    it is gone.

    `evaluating` counts looks in a row in which no module was in training mode.
    """

    def __init__(self, context: Context) -> None:
        self._context, self.torch = context, context.torch
        self._layers = LayerLooks(context)
        self._model: Foreign = None
        self._roots: list[Foreign] = []
        self._others: list[Foreign] = []
        self._leads, self._searches = -1, 0
        self._frozen: dict[int, tuple[int, Foreign]] = {}
        """Frozen batch norms in training mode, by their id: the version of what counts their
        batches, and their weight, at the look before."""
        self._idle: dict[int, Foreign] = {}
        self._idle_early: dict[int, Foreign] = {}
        """Optimizers that have not stepped, and one of their parameters with its gradient, to which
        weak references know it though another one is given its memory: from step 100 on they are
        named at the second look, before that only at the end."""
        self._finite: set[str] = set()
        self._left_out, self.followers = LeftOut(context), Followers(context)
        self.looks = self.evaluating = 0
        self.buffers = 0
        """Of floating point, at the last look."""
        self.modes = 0
        """Looks at a model in which the mode makes a difference."""

    def counts(self) -> dict[str, object]:
        """Fields of `doctor.facts.guard.GuardCounts`."""
        return {
            "buffers": self.buffers,
            "followers": self.followers.count,
            "model_looks": self.looks,
            "mode_looks": self.modes,
        }

    def look(self, watch: OptimizerWatch, stepping: list[OptimizerWatch]) -> None:
        """After a step of `watch`; `stepping` are all that have stepped."""
        if self._leads != watch.index:
            self._leads, self.evaluating = watch.index, 0
            if not self._holds(watch):
                self._find(watch)
        self.looks += 1
        self.followers.look(list(filter(None, [each() for each in self._roots])), watch)
        model = self._model() if self._model is not None else None
        if model is not None:
            self._look_at_buffers(model, watch)
        if watch.effective >= limit.MODES_FROM:
            if model is not None:
                self._look_at_mode(model, watch)
                self._layers.look(model, watch)
                self._look_at_frozen(watch)
                if watch.effective >= limit.LEFT_OUT_FROM:
                    self._look_at_left_out(model, watch, stepping)
            late = watch.effective >= limit.IDLE_FROM
            self._look_at_others(watch, stepping, self._idle if late else self._idle_early, late)

    def look_again(self, watch: OptimizerWatch, stepping: list[OptimizerWatch]) -> None:
        """The training has ended by itself, and its objects are still there."""
        model = self._model() if self._model is not None else None
        if model is not None and watch.effective >= limit.LEFT_OUT_FROM:
            self._look_at_left_out(model, watch, stepping)
        self._look_at_others(watch, stepping, self._idle_early, True)

    def _holds(self, watch: OptimizerWatch) -> bool:
        """Whether the model that is known is that of this optimizer too: one made for each step."""
        model = self._model() if self._model is not None else None
        held = set() if model is None else {id(each) for each in model.parameters()}
        return all(id(each) in held for each in watch.flat)

    def _find(self, watch: OptimizerWatch) -> None:
        """Search all objects in memory; where models and optimizers come and go, a few times."""
        self._searches += 1
        self._model, self._roots, self._others = None, [], []
        if self._searches > limit.SEARCHES:
            return
        found = objects_of(self.torch, watch.flat)
        self._model = None if found.model is None else weakref.ref(found.model)
        self._roots = [weakref.ref(each) for each in found.roots]
        self._others = [weakref.ref(each) for each in found.optimizers]

    def _look_at_buffers(self, model: Foreign, watch: OptimizerWatch) -> None:
        buffers = {
            name: local(buffer)
            for name, buffer in model.named_buffers()
            if buffer.is_floating_point() and buffer.device.type in DEVICES
        }
        self.buffers = len(buffers)
        kinds: dict[Foreign, list[str]] = {}
        for name in list(buffers)[: limit.MOST_BUFFERS]:
            if buffers[name].numel():
                kinds.setdefault((buffers[name].device, buffers[name].dtype), []).append(name)
        for names in kinds.values():
            sizes = self._sizes([buffers[name] for name in names])
            self._context.submit([sizes], unless_lost(self._judge_buffers, names, watch))

    def _sizes(self, buffers: List[Tensor]) -> Foreign:
        """The largest absolute value of each, as one vector; NaN where there is one."""
        return self.torch.stack([b.abs().max().float() for b in buffers])

    def _judge_buffers(self, names: list[str], watch: OptimizerWatch, largest: list[float]) -> None:
        sizes = dict(zip(names, largest))
        statistics = {name for name in sizes if name.rpartition(".")[2] in STATISTICS}
        bad = [
            name
            for name, size in sizes.items()
            if not math.isfinite(size) and (name in statistics or name in self._finite)
        ]
        self._finite |= {name for name, size in sizes.items() if math.isfinite(size)}
        if bad:
            self._finite.difference_update(bad)
            text = (
                f"{len(bad)} of {len(sizes)} buffers of the model are not finite "
                f"({first_two(bad)}): evaluation uses them, and a checkpoint holds them"
            )
            self._context.warn(codes.BUFFERS_FINITE, text, "", watch, status=FAIL)

    def _look_at_mode(self, model: Foreign, watch: OptimizerWatch) -> None:
        modules = list(model.modules())
        affected = [m for m in modules if mode_matters(self.torch, m)]
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
            self._context.warn(codes.TRAINING_MODE, text, "", watch)

    def _look_at_others(
        self,
        watch: OptimizerWatch,
        stepping: list[OptimizerWatch],
        idle: dict[int, Foreign],
        late: bool,
    ) -> None:
        """Optimizers that have never stepped, although backward passes reach their parameters;
        `late`: they should have by now. `idle`: those that had not at a look before."""
        trained = {id(p) for each in stepping for p in each.flat}
        known = {id(each.optimizer()) for each in stepping}
        for optimizer in filter(None, (each() for each in self._others)):
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            reached = [p for p in parameters if p.grad is not None]
            if id(optimizer) in known or not reached or any(id(p) in trained for p in parameters):
                continue
            least = min(reached, key=lambda p: p.numel())
            seen = weakref.ref(least), weakref.ref(least.grad), least.grad._version
            before = idle.setdefault(id(optimizer), seen)
            if late and before is not None and _is_renewed(*before):
                self._idle[id(optimizer)] = self._idle_early[id(optimizer)] = None
                text = (
                    f"{type(optimizer).__name__} with {len(parameters)} parameters has never "
                    f"stepped: backward passes reach {len(reached)} of them, and no other "
                    "optimizer has them"
                )
                self._context.warn(codes.STEPS_APPLIED, text, "never-stepped", watch)

    def _look_at_frozen(self, watch: OptimizerWatch) -> None:
        """Batch norms that gather statistics in a part that is frozen and follows no other."""
        kind, before, drifting = self.torch.nn.modules.batchnorm._BatchNorm, self._frozen, []
        self._frozen = {}
        whole: list[Foreign] = []
        for root in filter(None, [each() for each in self._roots]):
            frozen = not any(weight.requires_grad for weight in root.parameters())
            for name, module in root.named_modules():
                if not isinstance(module, kind) or not module.training:
                    continue
                weight, count = module.weight, module.num_batches_tracked
                if weight is None or count is None or weight.requires_grad:
                    continue
                version, weights = before.get(id(module), (count._version, None))
                if weights is not None and version != count._version:
                    drifting.append((name, (local(weight) - weights).abs().max().float()))
                    whole += [root] if frozen and root not in whole else []
                self._frozen[id(module)] = count._version, local(weight).clone()
        for device in {distance.device for _, distance in drifting}:
            here = [(n, distance) for n, distance in drifting if distance.device == device]
            names = [name for name, _ in here]
            stacked = self.torch.stack([distance for _, distance in here])
            judge = unless_lost(self._judge_drift, names, self._dropping(whole), watch)
            self._context.submit([stacked], judge)

    def _dropping(self, whole: list[Foreign]) -> str:
        """Which of the networks that do not train at all also drop values: a teacher."""
        dropout = self.torch.nn.modules.dropout._DropoutNd
        kinds = [
            type(root).__name__
            for root in whole
            if any(isinstance(m, dropout) and m.training and m.p > 0 for m in root.modules())
        ]
        return ", ".join(sorted(set(kinds)))

    def _judge_drift(
        self, names: list[str], dropping: str, watch: OptimizerWatch, distances: list[float]
    ) -> None:
        if any(distances):
            return
        text = (
            f"{len(names)} batch norms whose weights are frozen are in training mode and gather "
            f"statistics of the batches ({first_two(names)})"
        )
        if dropping:
            text += f"; {dropping}, which does not train at all, also drops values"
        status, cause = (WARN, "teacher") if dropping else (NOTE, "frozen")
        self._context.warn(codes.EVALUATION_MODE, text, cause, watch, status=status)

    def _look_at_left_out(
        self, model: Foreign, watch: OptimizerWatch, stepping: list[OptimizerWatch]
    ) -> None:
        optimizers = [each() for each in self._others]
        groups = [group for each in filter(None, optimizers) for group in each.param_groups]
        held = {id(p) for each in stepping for p in each.flat}
        held |= {id(p) for group in groups for p in group["params"]}
        roots = [root for root in (each() for each in self._roots) if root is not None]
        self._left_out.look(model, roots, held, watch, _held_twice(stepping))


def _held_twice(stepping: list[OptimizerWatch]) -> str:
    """That two optimizers have the same parameters, "" where none have."""
    every = [frozenset(id(p) for p in each.flat) for each in stepping]
    twice = next((e for n, e in enumerate(every) if e and e in every[:n]), None)
    return "" if twice is None else f", and two optimizers hold the same {len(twice)} parameters"


def _is_renewed(where: Foreign, gradient: Foreign, version: int) -> bool:
    """Whether a backward pass has reached a parameter since it had this gradient."""
    parameter = where()
    now = None if parameter is None else parameter.grad
    return now is not None and (now is not gradient() or now._version != version)
