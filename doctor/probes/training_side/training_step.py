"""A few real training steps of a subject, stage by stage, in the job's precision and recipe.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
Nothing is scheduled or decayed, so that a weight that stands still has a reason.
"""

from __future__ import annotations

import contextlib
import gc
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
import wire

STEPS, MORE_WHILE_SKIPPED = 3, 10
THREADS, SMALL = 1, 5_000_000
"""Of the CPU, for a model of fewer weights than that: threads that wait for each other on a busy
machine take ten times as long."""
LR, BETAS, EPS = 3e-4, (0.9, 0.999), 1e-8
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
COPIED = 1 << 16
"""Elements up to which a parameter's initial values are kept to compare with; of larger ones the
sum of the bits of every so many."""
AT_ONCE = 1 << 22
"""Elements that are summed at once: the sums widen them, and the device may be nearly full."""


class Subject(NamedTuple):
    """What is trained: a module and a batch on the device, and its loss.

    `loss(module, batch)` runs the forward pass and returns a scalar; autocast is on around it.
    """

    module: torch.nn.Module
    batch: Any
    loss: Callable[[Any, Any], torch.Tensor]

    @property
    def weights(self) -> Dict[str, torch.Tensor]:
        """The trainable parameters, a tied one under its first name."""
        return {n: p for n, p in self.module.named_parameters() if p.requires_grad}


class Timed:
    """Times of the stages, summed over the steps; the device finishes inside its stage."""

    def __init__(self, device: torch.device) -> None:
        self.spent: Dict[str, float] = {}
        self.inside = "allocate"
        self._device = device

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.inside = name
        began = time.perf_counter()
        with wire.stage(name):
            yield
            self._finish()
        self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - began

    def _finish(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        elif self._device.type == "mps":
            torch.mps.synchronize()


class AdamW:
    """AdamW without weight decay, through torch's function: the class imports torch._dynamo."""

    def __init__(
        self, weights: List[torch.Tensor], lr: float, function: Callable[..., None]
    ) -> None:
        self.lr = lr
        self.param_groups = [{"params": weights}]
        self._function = function
        self._weights = weights
        self._averages = [torch.zeros_like(weight) for weight in weights]
        self._squares = [torch.zeros_like(weight) for weight in weights]
        # Said in full: a user's code may have set another default device or dtype.
        self._taken = [torch.zeros((), dtype=torch.float32, device="cpu") for _ in weights]

    def state_dict(self) -> Dict[str, Any]:
        """As torch.optim.AdamW gives it, for its size on disk."""
        kept = zip(self._taken, self._averages, self._squares)
        names = ("step", "exp_avg", "exp_avg_sq")
        return {
            "state": {index: dict(zip(names, each)) for index, each in enumerate(kept)},
            "param_groups": [{"lr": self.lr, "params": list(range(len(self._weights)))}],
        }

    def step(self) -> None:
        state = zip(self._weights, self._averages, self._squares, self._taken)
        with_gradient = [entry for entry in state if entry[0].grad is not None]
        if not with_gradient:
            return
        weights, averages, squares, taken = (list(column) for column in zip(*with_gradient))
        with torch.no_grad():
            self._function(
                weights,
                [weight.grad for weight in weights],
                averages,
                squares,
                [],
                taken,
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=self.lr,
                weight_decay=0.0,
                eps=EPS,
                maximize=False,
            )


def optimizer_of(weights: List[torch.Tensor], lr: float) -> Any:
    """The functional AdamW, or the class where this torch has no such function."""
    try:
        from torch.optim.adamw import adamw
    except ImportError:
        return torch.optim.AdamW(weights, lr=lr, betas=BETAS, eps=EPS, weight_decay=0.0)
    return AdamW(weights, lr, adamw)


def scaler_of(device: torch.device) -> Any:
    """A GradScaler for this device, under the name that this torch has for it."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type)
    if device.type == "cuda":
        return torch.cuda.amp.GradScaler()
    raise RuntimeError("torch %s has no GradScaler for %s" % (torch.__version__, device.type))


def fingerprint(value: torch.Tensor) -> torch.Tensor:
    """What tells whether a parameter changed: its copy, of a large one sums of its bits."""
    value = value.detach()
    if value.numel() <= COPIED:
        return value.clone()
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32}
    bits = value.contiguous().view(whole.get(value.element_size(), torch.int64)).flatten()
    sums = []
    for part in torch.split(bits, AT_ONCE):
        rows, rest = divmod(part.numel(), COPIED)
        sums.append(part[: rows * COPIED].view(rows, COPIED).sum(1, dtype=torch.int64))
        if rest:
            sums.append(part[rows * COPIED :].sum(dtype=torch.int64).reshape(1))
    return torch.cat(sums)


class Training:
    """A subject with its optimizer and scaler, and what the steps told."""

    def __init__(
        self,
        subject: Subject,
        device: torch.device,
        precision: str,
        recipe: str,
        lr: float = LR,
    ) -> None:
        self.subject, self.device, self.lr = subject, device, lr
        self.dtype = DTYPES[precision]
        self.cast = recipe != "pure-bf16" and precision != "fp32"
        self.weights = subject.weights
        self.before = {name: fingerprint(value) for name, value in self.weights.items()}
        self.optimizer = optimizer_of(list(self.weights.values()), lr)
        self.scaler = scaler_of(device) if precision == "fp16" else None
        self.reached = dict.fromkeys(self.weights, False)
        self.finite = dict.fromkeys(self.weights, True)

    def autocast(self) -> Any:
        if not self.cast:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def step(self, stage: Callable[[str], Any]) -> Dict[str, Any]:
        """One step on the one batch, as sections.Step has it."""
        for weight in self.weights.values():
            weight.grad = None
        with stage("forward"), self.autocast():
            loss = self.subject.loss(self.subject.module, self.subject.batch)
        with stage("loss"):
            seen = float(loss.detach())
        with stage("backward"):
            (self.scaler.scale(loss) if self.scaler else loss).backward()
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            norms = self._norms()
        with stage("optimizer"):
            skipped, scale = self._update()
        if not skipped:
            self._keep(norms)
        total = sum(norm * norm for norm in norms.values() if norm is not None) ** 0.5
        return {
            "loss": wire.number(seen),
            "grad_norm": wire.number(total),
            "lr": self.lr,
            "skipped": skipped,
            "scale": None if scale is None else wire.number(scale),
        }

    def _norms(self) -> Dict[str, Optional[float]]:
        """Norm of each gradient, read back at once; None where there is no gradient."""
        named = [(name, w.grad) for name, w in self.weights.items() if w.grad is not None]
        if not named:
            return dict.fromkeys(self.weights)
        read = torch.stack([n.float() for n in torch._foreach_norm([g for _, g in named])])
        found: Dict[str, Optional[float]] = dict.fromkeys(self.weights)
        found.update(zip((name for name, _ in named), read.tolist()))
        return found

    def _update(self) -> Tuple[bool, Optional[float]]:
        """Step the optimizer; whether the scaler skipped it, and the scale it was under."""
        if self.scaler is None:
            self.optimizer.step()
            return False, None
        scale = float(self.scaler.get_scale())
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return float(self.scaler.get_scale()) < scale, scale

    def _keep(self, norms: Dict[str, Optional[float]]) -> None:
        for name, norm in norms.items():
            if norm is not None:
                self.reached[name] |= norm != 0.0
                self.finite[name] &= norm - norm == 0.0

    def parameters(self) -> List[Dict[str, Any]]:
        """Each parameter as sections.Parameter has it, compared with its initial copy."""
        pairs = [(fingerprint(value), self.before[name]) for name, value in self.weights.items()]
        moved = torch.stack([(now != then).any() for now, then in pairs]).tolist() if pairs else []
        return [
            {
                "name": name,
                "dtype": str(value.dtype).replace("torch.", ""),
                "size": value.numel(),
                "had_gradient": self.reached[name],
                "finite": self.finite[name],
                "moved": changed,
            }
            for (name, value), changed in zip(self.weights.items(), moved)
        ]


def freed(device: torch.device) -> None:
    """Let go of what earlier steps allocated: two models may not fit beside each other."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def peak_bytes(device: torch.device) -> Optional[int]:
    """Peak of the device's allocator; None where torch does not count."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if device.type == "mps":
        return int(torch.mps.driver_allocated_memory())
    return None


def run(
    stage: Timed,
    make: Callable[[], Subject],
    device: torch.device,
    precision: str,
    recipe: str,
    lr: float = LR,
) -> Dict[str, Any]:
    """Steps of what `make` returns, as Smoke has it. What a stage raises passes through."""
    began = time.perf_counter()
    with stage("allocate"):
        subject = make()
        if device.type == "cpu" and sum(w.numel() for w in subject.weights.values()) < SMALL:
            torch.set_num_threads(THREADS)
        training = Training(subject, device, precision, recipe, lr)
    steps: List[Dict[str, Any]] = []
    while sum(not step["skipped"] for step in steps) < STEPS:
        steps.append(training.step(stage))
        wire.tell(note={"step": steps[-1]})
        if sum(step["skipped"] for step in steps) > MORE_WHILE_SKIPPED:
            break
    with stage("compare"):
        parameters = training.parameters()
        peak = peak_bytes(device)
    return {
        "device": str(device),
        "precision": precision,
        "recipe": recipe,
        "lr": lr,
        "stages": [
            {"name": name, "ended": {"how": "ok", "seconds": spent}}
            for name, spent in stage.spent.items()
        ],
        "steps": steps,
        "parameters": parameters,
        "peak_bytes": peak,
        "seconds": time.perf_counter() - began,
    }
