"""A kernel ridge on generic features: how well it predicts rows that it has not seen, and how well
by chance."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

import torch

RIDGES = (0.003, 0.1, 3.0)
"""Shares of the mean of the kernel's diagonal."""
CLASSES, PER_CLASS, OUTPUTS, DRAWS = 50, 3, 32, 200
CLEAR, CHANCE, LEAST = 8.0, 3.0, 0.04
"""Spreads above chance from which on a learner knows something, below which it knows nothing, and
the share of the target that it explains at least. Our own numbers; 8 spreads leave room for the
several hundred relations that are tried, below one false alarm in a thousand runs."""


class Score(NamedTuple):
    """Of one way to pair inputs with targets."""

    explained: float
    above: float
    """Chance, in spreads of it."""

    @property
    def is_clear(self) -> bool:
        return self.above >= CLEAR and self.explained >= LEAST

    @property
    def is_chance(self) -> bool:
        return self.above < CHANCE


def outputs_of(target: Optional[torch.Tensor]) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
    """Rows x outputs of mean 0, and the classes, none for a regression; None where the target is
    neither."""
    if target is None or target.dim() > 2 or target.is_complex():
        return None
    flat = target.reshape(len(target), -1)
    none = torch.zeros(0)
    if not 1 <= flat.shape[1] <= OUTPUTS:
        return None
    single = flat.shape[1] == 1
    if single and not target.is_floating_point():
        classes, counts = torch.unique(flat[:, 0], return_counts=True)
        if not 1 < len(classes) <= CLASSES or int(counts.sort().values[-2]) < PER_CLASS:
            return None
        made = (flat == classes[None]).double()
        return made - made.mean(0), classes
    if not target.is_floating_point() and int(flat.max()) > 1:
        return None
    values = flat.double()
    if not bool(values.isfinite().all()):
        return None
    spread = values.std(0)
    values = (values - values.mean(0))[:, spread > 0] / spread[spread > 0]
    return (values.clamp(-5, 5), none) if values.shape[1] else None


def kernel(one: torch.Tensor, other: torch.Tensor, width: float) -> torch.Tensor:
    """Linear and radial in equal shares."""
    size = max(1, one.shape[1])
    linear = one @ other.T / size
    return 0.5 * linear + 0.5 * torch.exp(-(torch.cdist(one, other) ** 2) / (2 * width**2))


def width_of(made: torch.Tensor) -> float:
    distances = torch.pdist(made[:128]) if len(made) > 2 else torch.ones(1)
    return float(distances.median().clamp(min=1e-3))


class Learner:
    """Of one split: rows x features, of mean 0 and spread 1, and rows x outputs."""

    def __init__(self, features: torch.Tensor, outputs: torch.Tensor) -> None:
        self.features, self.outputs = features.double(), outputs
        self.width = width_of(self.features)
        made = kernel(self.features, self.features, self.width)
        values, vectors = torch.linalg.eigh(made)
        mean = float(values.clamp(min=0).mean())
        self._hats, self._weights = [], []
        for ridge in RIDGES:
            shrunk = values.clamp(min=0) / (values.clamp(min=0) + ridge * mean)
            self._hats.append((vectors * shrunk) @ vectors.T)
            inverse = 1 / (values.clamp(min=0) + ridge * mean)
            self._weights.append((vectors * inverse) @ (vectors.T @ outputs))
        draw = torch.Generator().manual_seed(0)
        count = len(outputs)
        chance = [torch.randperm(count, generator=draw) for _ in range(DRAWS)]
        scores = self._explained(chance)
        self._mean, self._spread = scores.mean(1), scores.std(1).clamp(min=1e-6)
        own = self._explained([torch.arange(count)])[:, 0]
        self.best = int(((own - self._mean) / self._spread).argmax())

    def _explained(self, orders: List[torch.Tensor]) -> torch.Tensor:
        """Ridges x orders: the share of the outputs in this order that is explained, each row by
        the other ones."""
        found = torch.zeros(len(RIDGES), len(orders), dtype=torch.float64)
        for number, hat in enumerate(self._hats):
            left = (1 - hat.diagonal()).clamp(min=1e-3)[:, None]
            for start in range(0, len(orders), 64):
                some = orders[start : start + 64]
                made = torch.cat([self.outputs[order] for order in some], 1)
                missed = ((made - hat @ made) / left) ** 2
                errors = missed.sum(0).reshape(len(some), -1).sum(1)
                found[number, start : start + 64] = 1 - errors / (self.outputs**2).sum()
        return found

    def scores(self, orders: List[torch.Tensor]) -> List[Score]:
        """Of each order of the outputs, by the ridge that is best for it."""
        found = self._explained(orders)
        above = (found - self._mean[:, None]) / self._spread[:, None]
        best = above.argmax(0)
        return [
            Score(float(found[number, n]), float(above[number, n])) for n, number in enumerate(best)
        ]

    def own(self) -> Score:
        return self.scores([torch.arange(len(self.outputs))])[0]

    def predict(self, features: torch.Tensor) -> torch.Tensor:
        made = kernel(features.double(), self.features, self.width)
        return torch.matmul(made, self._weights[self.best])


def correlation(predicted: torch.Tensor, outputs: torch.Tensor) -> float:
    """Over all columns; 0 where one side is constant."""
    one, two = predicted - predicted.mean(0), outputs - outputs.mean(0)
    return float((one * two).sum() / size_of(one, two))


def size_of(one: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    return ((one**2).sum() * (outputs**2).sum()).sqrt().clamp(min=1e-9)


def above_chance(predicted: torch.Tensor, outputs: torch.Tensor) -> float:
    """How far the correlation is above that of permuted rows, in spreads."""
    one = predicted - predicted.mean(0)
    draw = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(outputs), generator=draw) for _ in range(DRAWS)]
    chance = torch.stack([(one * outputs[order]).sum() for order in orders])
    chance = chance / size_of(one, outputs)
    own = correlation(predicted, outputs)
    return (own - float(chance.mean())) / max(float(chance.std()), 1e-6)
