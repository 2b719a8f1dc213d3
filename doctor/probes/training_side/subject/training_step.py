"""A few real training steps of a subject, stage by stage, in the job's precision and recipe.

No schedule and no weight decay, so an unchanged weight always has another cause.
"""

from __future__ import annotations

import contextlib
import time
from contextlib import AbstractContextManager
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

import torch

from ... import wire
from ..foreign import Foreign
from ..foreign.observing import plain
from . import (
    fingerprints,
    initial_weights,
    memory,
    optimizers,
    taken_gradients,
    turned_off,
    undone,
)
from .fingerprints import fingerprint, rows_alike
from .kept_batch import KeptBatch
from .manual_steps import Stepped
from .optimizers import Update, dense, optimizer_of
from .timed import Timed

STEPS, MORE_WHILE_SKIPPED = 3, 10
THREADS, SMALL = 1, 5_000_000
"""CPU threads for a model of fewer parameters: threads that wait for each other on a busy machine
take ten times as long."""
LR = 3e-4
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
Loss = Callable[[Foreign, Foreign], torch.Tensor]


class Subject(NamedTuple):
    """The training subject: a module and a batch on the device, and its loss.

    `loss(module, batch)` runs the forward pass and returns a scalar; autocast is on around it.
    """

    module: torch.nn.Module
    batch: Foreign
    loss: Loss
    update: Optional[Update] = None
    """The user's own Update; None: AdamW."""
    fixed: bool = False
    """The user gave one batch, and no loader that makes another for each step."""
    last: int = 0
    """Samples of the last batch of an epoch, where it is smaller than the others."""

    @property
    def weights(self) -> Dict[str, torch.Tensor]:
        """The trainable parameters; a tied one under its first name."""
        return {n: p for n, p in self.module.named_parameters() if p.requires_grad}


def scaler_of(device: torch.device) -> torch.amp.GradScaler:
    """A GradScaler for this device, under the name used by this torch."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type)
    if device.type == "cuda":
        return torch.cuda.amp.GradScaler()
    raise RuntimeError("torch %s has no GradScaler for %s" % (torch.__version__, device.type))


class Training:
    """A subject with its optimizer and scaler, and the results of its steps."""

    def __init__(
        self, subject: Subject, device: torch.device, precision: str, recipe: str, lr: float = LR
    ) -> None:
        self.subject, self.device, self.lr = subject, device, lr
        self.cast = DTYPES[precision] if recipe != "pure-bf16" and precision != "fp32" else None
        self.weights = subject.weights
        self.before = {name: fingerprint(value) for name, value in self.weights.items()}
        self.update = subject.update
        own = None if self.update is None else self.update.optimizer
        self.optimizer: Foreign = own or optimizer_of(list(self.weights.values()), lr)
        self.manual = own if isinstance(own, Stepped) else None
        """The optimizers that the loss steps itself."""
        scales = precision == "fp16" and self.manual is None
        self.scaler = scaler_of(device) if scales else None
        self.computed = dict.fromkeys(self.weights, False)
        self.reached = dict.fromkeys(self.weights, False)
        self.finite = dict.fromkeys(self.weights, True)
        self.largest: Dict[str, float] = {}
        self.order: Dict[str, int] = {}
        self.rates: Dict[int, float] = {}
        self.steerable: Set[str] = set()
        self.alike = [name for name, value in self.weights.items() if rows_alike(value)]
        self.near_zero = set(initial_weights.near_zero(self.weights))
        self.clipped: Set[str] = set()
        """Parameters that a plain step along the gradient changes, and one that is clipped not."""
        self.taken = taken_gradients.Taken(self.weights)
        self.undone = undone.Undone(self.weights, self.before)
        self.kept = KeptBatch(subject.batch)
        self.turned_off: Set[str] = set()
        """Kinds of modules that the first loss turns to evaluation before it trains them."""
        if self.manual is not None:
            self.undone.stop()  # it compares weights before and after the loss

    def autocast(self) -> AbstractContextManager[None]:
        return autocast(self.device, self.cast)

    def step(self, stage: Callable[[str], AbstractContextManager[None]]) -> Dict[str, Any]:
        """One step on the one batch, as a doctor.facts.training.Step."""
        rate = self.lr if self.update is None else self.update.rate
        if self.update is not None:
            self.update.note_rates(self.rates)
        for weight in self.weights.values():
            weight.grad = None
        with stage("forward"), self.autocast(), self._modes_watched():
            loss = self.subject.loss(self.subject.module, self.subject.batch)
        with stage("loss"):
            value = float(plain(loss))
        self.undone.after_forward()
        with stage("backward"), self._order_recorded(), self.taken:
            backpropagate(self.scaler.scale(loss) if self.scaler else loss)
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            norms = self.taken.filled(self._norms())
            if self.manual is not None:
                norms = self.manual.of(self.weights)
        with stage("optimizer"):
            skipped, scale = self._update()
        if not skipped:
            self._record(norms)
            self.undone.after_update()
        scheduler = None if self.update is None else self.update.scheduler
        if scheduler is not None and not skipped:
            with stage("scheduler"):
                advance(scheduler, value)
        self.kept.restore()
        total = sum(norm * norm for norm in norms.values() if norm is not None) ** 0.5
        return {
            "loss": wire.number(value),
            "grad_norm": wire.number(total),
            "lr": rate,
            "skipped": skipped,
            "scale": None if scale is None else wire.number(scale),
        }

    def _modes_watched(self) -> AbstractContextManager[None]:
        if self.order:  # a backward pass was recorded: the first step is over
            return contextlib.nullcontext()
        return turned_off.turned_off(self.subject.module, self.turned_off)

    @contextlib.contextmanager
    def _order_recorded(self) -> Iterator[None]:
        """Record the order in which the first backward pass reaches the parameters."""

        def reach(name: str) -> Callable[[torch.Tensor], None]:
            def hook(gradient: torch.Tensor) -> None:
                self.order.setdefault(name, len(self.order))

            return hook

        weights: Dict[str, Any] = {} if self.order else dict(self.weights)
        with contextlib.ExitStack() as hooks:
            for name, weight in weights.items():
                hooks.callback(weight.register_hook(reach(name)).remove)
            yield

    def _norms(self) -> Dict[str, Optional[float]]:
        """Norm of each gradient, in one transfer; None if there is no gradient."""
        named = [(name, w.grad) for name, w in self.weights.items() if w.grad is not None]
        if not named:
            return dict.fromkeys(self.weights)
        gradients = [dense(gradient) for _, gradient in named]
        norms = torch.stack([n.float() for n in torch._foreach_norm(gradients)])
        by_name: Dict[str, Optional[float]] = dict.fromkeys(self.weights)
        by_name.update(zip((name for name, _ in named), norms.tolist()))
        for (name, _), gradient in zip(named, gradients):
            if by_name[name] == 0.0:  # squares below 1e-38 are 0
                by_name[name] = float(gradient.abs().max()) if gradient.numel() else 0.0
        return by_name

    def _update(self) -> Tuple[bool, Optional[float]]:
        """Step the optimizer; returns whether the scaler skipped it, and the scale before it."""
        if self.update is not None:
            self._clip(self.update)
        if self.scaler is None:
            self.optimizer.step()
            return False, None
        scale = float(self.scaler.get_scale())
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return float(self.scaler.get_scale()) < scale, scale

    def _clip(self, update: Foreign) -> None:
        """Clip the gradients as the user does, and note what a plain step would change."""
        before = after = update.would_change(self.weights) if self.before else set()
        if update.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(self.weights.values()), update.max_norm)
            after = update.would_change(self.weights) if self.before else set()
        self.steerable |= after
        self.clipped |= before - after

    def _record(self, norms: Dict[str, Optional[float]]) -> None:
        for name, norm in norms.items():
            if norm is not None:
                self.computed[name] = True
                self.reached[name] |= norm != 0.0
                self.finite[name] &= norm - norm == 0.0
                self.largest[name] = max(norm, self.largest.get(name, 0.0))

    def parameters(self) -> List[Dict[str, Any]]:
        """Each parameter as a doctor.facts.training.Parameter, compared with its initial copy."""
        pairs = [(fingerprint(value), self.before[name]) for name, value in self.weights.items()]
        changes = (
            torch.stack([(now != then).any() for now, then in pairs]).tolist() if pairs else []
        )
        copies = fingerprints.copies(self.before, self.reached)
        rates = {} if self.update is None else self.update.rates_by_weight(self.rates)
        return [
            {
                "name": name,
                "dtype": str(value.dtype).replace("torch.", ""),
                "size": value.numel(),
                "computed": self.computed[name],
                "had_gradient": self.reached[name],
                "finite": self.finite[name],
                "moved": changed,
                "dimensions": value.dim(),
                "grad_norm": _number(self.largest.get(name)),
                "order": self.order.get(name),
                "rows_alike": name in self.alike and rows_alike(value),
                "undone": name in self.undone.names,
                "set_back": name in self.undone.initial,
                "rewritten": name in self.undone.rewritten,
                "clipped": name in self.clipped,
                "change": _number(self.undone.changes.get(name)),
                "copied": name in copies,
                "near_zero": name in self.near_zero,
                "steerable": name in self.steerable if self.update is not None else None,
                "rate": rates.get(id(value)),
            }
            for (name, value), changed in zip(self.weights.items(), changes)
        ]


def autocast(device: torch.device, dtype: Optional[torch.dtype]) -> AbstractContextManager[None]:
    """Nothing of None, which is a training without autocast."""
    return torch.autocast(device.type, dtype=dtype) if dtype else contextlib.nullcontext()


def advance(scheduler: Foreign, loss: float) -> None:
    """Step the user's schedule, as a training script does after its optimizer."""
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        scheduler.step(loss)
    else:
        scheduler.step()


def _number(value: Optional[float]) -> Union[float, str, None]:
    return None if value is None else wire.number(value)


def run(
    stage: Timed,
    make: Callable[[], Subject],
    device: torch.device,
    precision: str,
    recipe: str,
    lr: float = LR,
    on_start: Callable[[Training], Any] = lambda training: None,
    *,
    wanted: int = STEPS,
) -> Dict[str, Any]:
    """A few steps of the subject from `make`, as a Smoke record. Raises what a stage raises."""
    started = time.perf_counter()
    with stage("allocate"):
        subject = make()
        if device.type == "cpu" and sum(w.numel() for w in subject.weights.values()) < SMALL:
            torch.set_num_threads(THREADS)
        training = Training(subject, device, precision, recipe, lr)
        on_start(training)
    steps: List[Dict[str, Any]] = []
    while sum(not step["skipped"] for step in steps) < wanted:
        steps.append(training.step(stage))
        wire.send(note={"step": steps[-1]})
        if sum(step["skipped"] for step in steps) > MORE_WHILE_SKIPPED:
            break
    with stage("compare"):
        parameters = training.parameters()
        peak = memory.peak_bytes(device)
    return {
        "device": str(device),
        "precision": precision,
        "recipe": recipe,
        "lr": max(step["lr"] for step in steps),
        "stages": [
            {"name": name, "ended": {"how": "ok", "seconds": seconds}}
            for name, seconds in stage.seconds.items()
        ],
        "steps": steps,
        "parameters": parameters,
        "peak_bytes": peak,
        "optimizer": optimizers.facts_of(training.update, training.weights, training.rates),
        "seconds": time.perf_counter() - started,
    }


def backpropagate(loss: Foreign) -> None:
    """loss.backward(), which torch declares without types."""
    loss.backward()


def loss_of(training: Training) -> torch.Tensor:
    """The loss of one more forward pass."""
    with training.autocast():
        subject = training.subject
        return subject.loss(subject.module, subject.batch)
