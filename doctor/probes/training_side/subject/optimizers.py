"""How the weights of a training are updated: the user's optimizer, or AdamW."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Union

import torch

from ..foreign import Foreign
from ..foreign.observing import plain
from . import schedules

BETAS, EPS = (0.9, 0.999), 1e-8
ADAMW = {
    "amsgrad": False,
    "beta1": BETAS[0],
    "beta2": BETAS[1],
    "weight_decay": 0.0,
    "eps": EPS,
    "maximize": False,
}
"""Keyword arguments of torch.optim.adamw.adamw, which is no public interface."""


OWN_RATE = 1e-3
"""In the place of the rate of a group whose lr is None, as that of Adafactor with relative_step:
the optimizer computes it in each step, and does not show it."""
COMPARED = 1 << 16
"""Elements of a parameter whose update is computed beforehand: the device may be nearly full."""


class Update(NamedTuple):
    """How the user updates the weights."""

    optimizer: Any
    scheduler: Any = None
    max_norm: Optional[float] = None
    """The limit that the user clips the norm of all gradients to."""

    @property
    def rate(self) -> float:
        """The highest learning rate of the groups now."""
        return max(map(rate_of, self.optimizer.param_groups), default=0.0)

    def note_rates(self, highest: Dict[int, float]) -> None:
        """Enter the learning rates of the groups, if they are higher than those there."""
        for index, group in enumerate(self.optimizer.param_groups):
            highest[index] = max(rate_of(group), highest.get(index, 0.0))

    def rates_by_weight(self, highest: Dict[int, float]) -> Dict[int, Optional[float]]:
        """Id of a parameter -> the highest learning rate of its group, which is at least the one
        that a schedule multiplies; None for a schedule that notes none."""
        rates = {}
        for index, group in enumerate(self.optimizer.param_groups):
            noted = [_number(group, name) for name in ("initial_lr", "max_lr") if name in group]
            known = noted or self.scheduler is None
            rate = max(highest.get(index, 0.0), *noted, 0.0) if known else None
            rates.update({id(weight): rate for weight in group["params"]})
        return rates

    def would_change(self, weights: Dict[str, torch.Tensor]) -> Set[str]:
        """Parameters whose first elements differ after a plain step of the learning rate along the
        gradient."""
        rates = {
            id(weight): rate_of(group)
            for group in self.optimizer.param_groups
            for weight in group["params"]
        }
        names = set()
        for name, weight in weights.items():
            if weight.grad is None or weight.grad.layout != torch.strided:
                continue
            value, gradient = (plain(each).reshape(-1)[:COMPARED] for each in (weight, weight.grad))
            if bool((value - rates.get(id(weight), 0.0) * gradient != value).any()):
                names.add(name)
        return names

    def scale(self, factor: float) -> None:
        """Multiply every learning rate."""
        for group in self.optimizer.param_groups:
            if group["lr"] is not None:
                group["lr"] = group["lr"] * factor
        rates = getattr(self.scheduler, "base_lrs", None)
        if rates is not None:
            self.scheduler.base_lrs = [None if rate is None else rate * factor for rate in rates]


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
        # Explicit, because the user's code may have set another default device or dtype.
        self._steps = [torch.zeros((), dtype=torch.float32, device="cpu") for _ in weights]

    def state_dict(self) -> Dict[str, Any]:
        """In the layout of torch.optim.AdamW, for its size on disk."""
        columns = zip(self._steps, self._averages, self._squares)
        names = ("step", "exp_avg", "exp_avg_sq")
        return {
            "state": {index: dict(zip(names, each)) for index, each in enumerate(columns)},
            "param_groups": [{"lr": self.lr, "params": list(range(len(self._weights)))}],
        }

    def step(self) -> None:
        state = zip(self._weights, self._averages, self._squares, self._steps)
        with_gradient = [entry for entry in state if entry[0].grad is not None]
        if not with_gradient:
            return
        weights, averages, squares, steps = (list(column) for column in zip(*with_gradient))
        with torch.no_grad():
            gradients = [dense(weight.grad) for weight in weights]
            self._function(weights, gradients, averages, squares, [], steps, lr=self.lr, **ADAMW)


def dense(gradient: torch.Tensor) -> torch.Tensor:
    """The gradient of an embedding with sparse=True as AdamW and the norm need it."""
    return gradient if gradient.layout == torch.strided else gradient.to_dense()


def optimizer_of(weights: List[torch.Tensor], lr: float) -> Union[AdamW, torch.optim.AdamW]:
    """The functional AdamW, or the class where this torch has no function with these arguments."""
    try:
        from torch.optim.adamw import adamw

        inspect.signature(adamw).bind(*[[]] * 6, lr=lr, **ADAMW)
    except (ImportError, TypeError):
        return torch.optim.AdamW(weights, lr=lr, betas=BETAS, eps=EPS, weight_decay=0.0)
    return AdamW(weights, lr, adamw)


def facts_of(
    update: Optional[Update], weights: Dict[str, torch.Tensor], highest: Dict[int, float]
) -> Optional[Dict[str, Any]]:
    """The user's optimizer as a doctor.facts.training.Optimizer; None: the doctor's AdamW.

    `highest` are the learning rates of its groups in the steps.
    """
    if update is None:
        return None
    groups = update.optimizer.param_groups
    held = {id(weight) for group in groups for weight in group["params"]}
    omitted = [name for name, weight in weights.items() if id(weight) not in held]
    still = [group for index, group in enumerate(groups) if highest.get(index) == 0.0]
    waiting = {id(w) for group in still if may_rise(update, group) for w in group["params"]}
    resting = {id(w) for group in still for w in group["params"]} - waiting
    return {
        "name": type(update.optimizer).__name__,
        "rates": sorted({float(group["lr"]) for group in groups if group["lr"] is not None}),
        "schedule": None if update.scheduler is None else type(update.scheduler).__name__,
        "max_norm": update.max_norm,
        "omitted": omitted,
        "strays": strays(groups, weights),
        "maximize": any(bool(group.get("maximize")) for group in groups),
        "resting": [name for name, weight in weights.items() if id(weight) in resting],
        "forecast": None
        if any(highest.get(index, 1.0) for index in range(len(groups)))
        else schedules.forecast(update.scheduler),
        "waiting": [name for name, weight in weights.items() if id(weight) in waiting],
        "epsilon": max((e for e in map(_epsilon, groups) if e is not None), default=None),
        "momentum": max((_number(group, "momentum") for group in groups), default=0.0),
        "decay": max(
            (
                highest.get(index, 0.0) * _number(group, "weight_decay")
                for index, group in enumerate(groups)
            ),
            default=0.0,
        ),
    }


def may_rise(update: Update, group: Foreign) -> bool:
    """Whether a schedule can raise the learning rate of a group from 0: those of torch multiply
    `initial_lr`, which they note in the group."""
    return update.scheduler is not None and group.get("initial_lr") != 0.0


def strays(groups: Foreign, weights: Dict[str, torch.Tensor]) -> int:
    """Trainable tensors of the groups that are no parameters of the model."""
    ids = {id(weight) for weight in weights.values()}
    held = (weight for group in groups for weight in group["params"])
    return sum(weight.requires_grad and id(weight) not in ids for weight in held)


def rate_of(group: Dict[str, Any]) -> float:
    """The learning rate of a group, OWN_RATE where the optimizer computes its own."""
    return OWN_RATE if group["lr"] is None else float(group["lr"])


def _number(group: Dict[str, Any], name: str) -> float:
    value = group.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _epsilon(group: Dict[str, Any]) -> Optional[float]:
    return _number(group, "eps") if isinstance(group.get("eps"), (int, float)) else None
