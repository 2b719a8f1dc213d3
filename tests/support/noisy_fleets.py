"""Fleets whose rates have noise, for tests of stragglers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np  # noqa: TID253 - tests only

from doctor.facts.fleet import NodeSummary

METRICS = 12


def fleet(count: int, seed: int, scatter: float = 0.01, tail: float | None = None,
          slowed: dict[tuple[int, int], float] | None = None) -> list[NodeSummary]:  # fmt: skip
    """Nodes n0, n1 ... with 12 metrics; `slowed`: (node, metric) -> how many times slower."""
    random = np.random.default_rng(seed)
    shape = (count, METRICS)
    noise = random.normal(size=shape) if tail is None else random.standard_t(tail, shape)
    values = np.exp(scatter * noise) * 1e12
    for (node, metric), factor in (slowed or {}).items():
        values[node, metric] /= factor
    return [
        NodeSummary(
            node=f"n{number}",
            classed="8 × H200",
            outcome="ready",
            rates={f"m{metric}": (rate,) for metric, rate in enumerate(row)},
        )
        for number, row in enumerate(values.tolist())
    ]


def again(
    nodes: list[NodeSummary],
    names: tuple[str, ...],
    seed: int,
    slow: Callable[[str, str], float],
    scatter: float = 0.01,
) -> list[NodeSummary]:
    """The nodes, those of these names measured once more; `slow`: node, metric -> slowdown."""
    random = np.random.default_rng(seed)
    results = []
    for node in nodes:
        if node.node in names:
            rates = {
                name: (*old, 1e12 * math.exp(scatter * random.normal()) / slow(node.node, name))
                for name, old in node.rates.items()
            }
            node = NodeSummary(
                node=node.node, classed=node.classed, outcome=node.outcome, rates=rates
            )
        results.append(node)
    return results
