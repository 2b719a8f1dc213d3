"""Whether two columns of the features make the target, as a price for each square meter and the
square meters."""

from __future__ import annotations

from itertools import combinations
from typing import List

import torch

MOST_COLUMNS, LEAST_COLUMNS, LEAST_ROWS, LARGEST = 24, 5, 64, 50.0
"""Columns that are compared, and are there at least; rows; and what a logarithm is at most."""
LEFT, MORE = 5e-3, 20.0
"""Of the target's spread, what rounding leaves, and how many times as much each column leaves
alone, and both added. Our own numbers."""
LEAST_TARGETS = 20


def of_target(features: torch.Tensor, target: torch.Tensor) -> List[int]:
    """The two columns whose product or quotient the target is, or its exponential, whatever all
    were scaled by; [] where there are none."""
    count = features.shape[1]
    if not LEAST_COLUMNS <= count <= MOST_COLUMNS or len(target) < LEAST_ROWS:
        return []
    if len(torch.unique(target)) < LEAST_TARGETS:
        return []
    measured = [n for n in range(count) if len(torch.unique(features[:, n])) >= LEAST_TARGETS]
    forms = [target, *([target.exp()] if float(target.abs().max()) <= LARGEST else [])]
    for one, other in combinations(measured, 2):
        a, b = features[:, one], features[:, other]
        added = min(left(form, a, b) for form in forms)
        if added <= LEFT:
            continue
        for form in forms:
            made = min(left(form, a, b, a * b), left(form * b, a, form), left(form * a, b, form))
            if made <= LEFT and made * MORE <= added:
                return [one, other]
    return []


def left(target: torch.Tensor, *columns: torch.Tensor) -> float:
    """Share of the target's spread that a weighted sum of the columns leaves, of all rows and of
    the middle ones: a single large value is explained by anything."""
    design = torch.stack([*columns, torch.ones_like(target)], 1)
    weights = torch.linalg.lstsq(design, target[:, None]).solution
    rest = target - (design @ weights)[:, 0]
    middle = rest.abs().median() / (target - target.median()).abs().median().clamp(min=1e-12)
    return max(float(rest.std() / target.std().clamp(min=1e-12)), float(middle))
