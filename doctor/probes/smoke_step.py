"""A few real training steps of a small decoder, stage by stage, in the job's precision and recipe.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
Nothing is scheduled, decayed or dropped out, so that a weight that stands still has a reason.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
import torch.nn.functional as F
import wire

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEAD = 256, 128, 256, 2, 64
BATCH, LENGTH = 2, 64
STEPS, MORE_WHILE_SKIPPED = 3, 10
THREADS = 1
"""Of the CPU: the model is small, and threads that wait for each other on a busy machine take ten
times as long."""
LR, BETAS, EPS = 3e-4, (0.9, 0.999), 1e-8
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


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


def initial(device: torch.device, dtype: torch.dtype) -> Dict[str, torch.Tensor]:
    """The trainable parameters, drawn on the CPU from a fixed seed: the same on every device."""
    draw = torch.Generator().manual_seed(20)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=draw) * 0.02

    weights = {"embedding.weight": matrix(VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        name = "layers.%d." % layer
        weights[name + "attention_norm.weight"] = torch.ones(WIDTH)
        weights[name + "attention.qkv.weight"] = matrix(3 * WIDTH, WIDTH)
        weights[name + "attention.out.weight"] = matrix(WIDTH, WIDTH)
        weights[name + "mlp_norm.weight"] = torch.ones(WIDTH)
        weights[name + "mlp.up.weight"] = matrix(HIDDEN, WIDTH)
        weights[name + "mlp.down.weight"] = matrix(WIDTH, HIDDEN)
    weights["norm.weight"] = torch.ones(WIDTH)
    weights["head.weight"] = matrix(VOCABULARY, WIDTH)
    return {
        name: value.to(device=device, dtype=dtype).requires_grad_()
        for name, value in weights.items()
    }


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """By hand: torch has its own from 2.4 on only. Its square is taken in fp32, as Llama does."""
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * scaled.to(x.dtype)


def logits(weights: Dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    """The decoder: attention and MLP blocks over the embedding, then the head."""
    batch, length = tokens.shape
    x = F.embedding(tokens, weights["embedding.weight"])
    for layer in range(LAYERS):
        name = "layers.%d." % layer
        normed = rms_norm(x, weights[name + "attention_norm.weight"])
        qkv = F.linear(normed, weights[name + "attention.qkv.weight"])
        q, k, v = qkv.view(batch, length, 3, WIDTH // HEAD, HEAD).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        seen = seen.transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + F.linear(seen, weights[name + "attention.out.weight"])
        normed = rms_norm(x, weights[name + "mlp_norm.weight"])
        hidden = F.silu(F.linear(normed, weights[name + "mlp.up.weight"]))
        x = x + F.linear(hidden, weights[name + "mlp.down.weight"])
    return F.linear(rms_norm(x, weights["norm.weight"]), weights["head.weight"])


class AdamW:
    """AdamW without weight decay, through torch's function: the class imports torch._dynamo."""

    def __init__(self, weights: List[torch.Tensor], function: Callable[..., None]) -> None:
        self.param_groups = [{"params": weights}]
        self._function = function
        self._weights = weights
        self._averages = [torch.zeros_like(weight) for weight in weights]
        self._squares = [torch.zeros_like(weight) for weight in weights]
        self._taken = [torch.zeros(()) for _ in weights]

    def step(self) -> None:
        state = zip(self._weights, self._averages, self._squares, self._taken)
        with_gradient = [entry for entry in state if entry[0].grad is not None]
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
                lr=LR,
                weight_decay=0.0,
                eps=EPS,
                maximize=False,
            )


def optimizer_of(weights: List[torch.Tensor]) -> Any:
    """The functional AdamW, or the class where this torch has no such function."""
    try:
        from torch.optim.adamw import adamw
    except ImportError:
        return torch.optim.AdamW(weights, lr=LR, betas=BETAS, eps=EPS, weight_decay=0.0)
    return AdamW(weights, adamw)


def scaler_of(device: torch.device) -> Any:
    """A GradScaler for this device, under the name that this torch has for it."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type)
    if device.type == "cuda":
        return torch.cuda.amp.GradScaler()
    raise RuntimeError("torch %s has no GradScaler for %s" % (torch.__version__, device.type))


class Training:
    """Weights, batch, optimizer and scaler, and what the steps told."""

    def __init__(self, device: torch.device, precision: str, recipe: str) -> None:
        pure = recipe == "pure-bf16"
        self.device, self.dtype = device, DTYPES[precision]
        self.cast = not pure and precision != "fp32"
        self.weights = initial(device, torch.bfloat16 if pure else torch.float32)
        self.before = {name: value.detach().clone() for name, value in self.weights.items()}
        draw = torch.Generator().manual_seed(21)
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=draw).to(device)
        self.tokens, self.targets = tokens[:, :-1], tokens[:, 1:].reshape(-1)
        self.optimizer = optimizer_of(list(self.weights.values()))
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
        with self.autocast():
            with stage("forward"):
                predicted = logits(self.weights, self.tokens)
            with stage("loss"):
                loss = F.cross_entropy(predicted.float().flatten(0, 1), self.targets)
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
            "lr": LR,
            "skipped": skipped,
            "scale": None if scale is None else wire.number(scale),
        }

    def _norms(self) -> Dict[str, Optional[float]]:
        """Norm of each gradient, read back at once; None where there is no gradient."""
        named = [(name, w.grad) for name, w in self.weights.items() if w.grad is not None]
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
        pairs = [(value.detach(), self.before[name]) for name, value in self.weights.items()]
        moved = torch.stack([(now != then).any() for now, then in pairs]).tolist()
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


def peak_bytes(device: torch.device) -> Optional[int]:
    """Peak of the device's allocator; None where torch does not count."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if device.type == "mps":
        return int(torch.mps.driver_allocated_memory())
    return None


def run(stage: Timed, device: torch.device, precision: str, recipe: str) -> Dict[str, Any]:
    """The smoke step as sections.Smoke has it. What a stage raises passes through."""
    began = time.perf_counter()
    with stage("allocate"):
        torch.set_num_threads(THREADS)
        training = Training(device, precision, recipe)
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
        "lr": LR,
        "stages": [
            {"name": name, "ended": {"how": "ok", "seconds": spent}}
            for name, spent in stage.spent.items()
        ],
        "steps": steps,
        "parameters": parameters,
        "peak_bytes": peak,
        "seconds": time.perf_counter() - began,
    }
