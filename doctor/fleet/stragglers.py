"""Which nodes are slower than their class, by a rule whose false alarms are bounded.

A node is a candidate in a metric where it is `CANDIDATE` scatters slower than the median of its
class. Candidates and controls are measured again. With a share q of candidates among n nodes, noise
makes one of them slow in k measurements with the chance n q^k: k is the least with which this, over
all metrics, is below `ALARM`. Nothing is assumed of the noise but that it is new each time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from doctor.facts.fleet import Group, Metric, NodeClass, NodeSummary, Slow, Spread
from doctor.fleet.noise import SLOWER, TAILS, Division, divide, exceeded_by, scatter, tail
from doctor.fleet.sensitivity import found

if TYPE_CHECKING:
    from doctor.fleet.noise import Values

ALARM = 0.01
"""Of healthy fleets: in how many a node may be called slow."""
CANDIDATE = 5.0
"""Scatters. Our own number: lower ones find less slowdown each, and more noise to measure again."""
FEWEST = 4
"""Nodes of a class: below, there is no scatter to compare with."""
CONTROLS = 8
"""Nodes near the median that are measured again with the candidates."""
FEWEST_CONTROLS = 2


class Analysis(NamedTuple):
    """What the rates of a fleet show."""

    classes: tuple[NodeClass, ...]
    slow: tuple[Slow, ...]
    again: tuple[str, ...]
    metrics: tuple[Metric, ...]


@dataclass(slots=True)
class Sample:
    """One metric of one class."""

    metric: str
    members: list[int]
    """Indices of the nodes that have it."""
    values: Values
    """Logarithms of the first measurement of each."""
    division: Division | None = None
    deviations: Values = field(init=False)
    """From the median of the class, or of its group."""
    scatter: float = field(init=False)
    median: float = field(init=False)
    """Of the faster group, where there are two."""

    def __post_init__(self) -> None:
        import numpy as np

        self.division = divide(self.values)
        if self.division is None:
            self.median, self.scatter = scatter(self.values)
            self.deviations = self.values - self.median
            return
        slow = self.division.slow
        low, high = np.median(self.values[slow]), np.median(self.values[~slow])
        self.median = float(high)
        self.deviations = self.values - np.where(slow, low, high)
        _, self.scatter = scatter(self.deviations)

    @property
    def bound(self) -> float:
        """The logarithm of the slowdown from which a node is a candidate."""
        return max(CANDIDATE * self.scatter, math.log(SLOWER))

    @property
    def candidates(self) -> list[int]:
        """Positions in `members`, the slowest first."""
        import numpy as np

        below = np.flatnonzero(self.deviations < -self.bound)
        order = np.argsort(self.deviations[below], kind="stable")
        positions: list[int] = below[order].tolist()
        return positions


def analyse(nodes: Sequence[NodeSummary], *, live: bool = False) -> Analysis:
    """The classes with the spread of each metric, slow nodes, and the values for the heat map.

    `live`: the nodes can be measured again, so the sensitivity is that of all measurements.
    """
    by_class: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        if node.classed:
            by_class.setdefault(node.classed, []).append(index)
    ordered = sorted(by_class.items(), key=lambda item: -len(item[1]))
    samples = {name: _samples(nodes, members) for name, members in ordered}
    trials = sum(len(each.members) for group in samples.values() for each in group)
    freedom = _tail([each for group in samples.values() for each in group])
    slow: list[Slow] = []
    again: dict[str, None] = {}
    for group in samples.values():
        for sample in group:
            if len(sample.members) >= FEWEST:
                found, repeat = _slow(nodes, sample, len(group), trials, freedom)
                slow += found
                again |= dict.fromkeys(repeat)
    classes = tuple(
        NodeClass(
            classed=name,
            count=len(by_class[name]),
            spreads=tuple(_spreads(nodes, group, trials, freedom, live=live)),
        )
        for name, group in samples.items()
    )
    slow.sort(key=lambda each: (not each.confirmed, not each.certain, -each.factor))
    return Analysis(classes, tuple(slow), tuple(again), _metrics(nodes, samples))


def _samples(nodes: Sequence[NodeSummary], members: list[int]) -> list[Sample]:
    import numpy as np

    names = dict.fromkeys(name for index in members for name in nodes[index].rates)
    samples = []
    for name in names:
        first = {index: rates[0] for index in members if (rates := nodes[index].rates.get(name))}
        values = np.log(np.fromiter(first.values(), dtype=float, count=len(first)))
        samples.append(Sample(name, list(first), values))
    return samples


def _tail(samples: Sequence[Sample]) -> float:
    """The tail of all metrics: few classes are large enough for one of their own."""
    import numpy as np

    faster = [
        each.deviations[each.deviations > 0] / each.scatter
        for each in samples
        if len(each.members) >= FEWEST
    ]
    return tail(np.concatenate(faster)) if faster else tail(np.array([]))


def required(nodes: int, candidates: int, metrics: int) -> int:
    """Measurements that must agree, so that noise makes them agree in one of 100 fleets at most."""
    share = max(candidates, 1) / nodes
    if share >= 1:
        return 99
    return max(2, math.ceil(math.log(metrics * nodes / ALARM) / -math.log(share)))


def single_bound(count: int, trials: int, freedom: float) -> float:
    """Scatters that a single measurement must be off to be no chance.

    In a small class the scatter itself is uncertain, the more so the lighter the tail: the factors
    are from simulations with normal noise and with Student's t of 3 degrees of freedom.
    """
    chance = ALARM / max(trials, 1)
    normal = (1 + 16 / count + 100 / count**2) * exceeded_by(chance, TAILS[-1])
    heavy = (1 + 3.2 / count + 27 / count**2) * exceeded_by(chance, freedom)
    return max(normal, heavy)


def _slow(
    nodes: Sequence[NodeSummary], sample: Sample, metrics: int, trials: int, freedom: float
) -> tuple[list[Slow], list[str]]:
    """The slow nodes in one metric, and who is to be measured again."""
    candidates = sample.candidates
    if not candidates:
        return [], []
    count = len(sample.members)
    need = required(count, len(candidates), metrics)
    single = max(single_bound(count, trials, freedom) * sample.scatter, sample.bound)
    controls = _controls(sample, set(candidates))
    shifts = _shifts(nodes, sample, controls)
    found, again = [], []
    for position in candidates:
        node = nodes[sample.members[position]]
        factors = _factors(node, sample, position, shifts)
        if any(factor < sample.bound for factor in factors):
            continue
        one = Slow(
            node=node.node,
            metric=sample.metric,
            factor=round(math.exp(min(factors)), 4),
            part=node.slowest.get(sample.metric, ""),
            measured=len(factors),
            required=need,
            certain=factors[0] >= single and len(factors) == 1,
        )
        found.append(one)
        if not one.confirmed:
            again.append(node.node)
    if again:
        again += [nodes[sample.members[position]].node for position in controls]
    return found, again


def _controls(sample: Sample, candidates: set[int]) -> list[int]:
    """Positions of nodes near the median."""
    import numpy as np

    order = np.argsort(np.abs(sample.deviations), kind="stable").tolist()
    return list(itertools.islice((each for each in order if each not in candidates), CONTROLS))


def _shifts(nodes: Sequence[NodeSummary], sample: Sample, controls: list[int]) -> list[float]:
    """By how much later measurements of the same nodes differ from the first, for each of them.

    Every node that was measured again and is no candidate counts, if there are enough.
    """
    import numpy as np

    candidates = set(sample.candidates)
    rows = [
        nodes[index].rates[sample.metric]
        for position, index in enumerate(sample.members)
        if position not in candidates and len(nodes[index].rates[sample.metric]) > 1
    ]
    shifts = []
    for number in range(1, max((len(row) for row in rows), default=0)):
        later = [math.log(row[number] / row[0]) for row in rows if len(row) > number]
        if len(later) < min(FEWEST_CONTROLS, len(controls)):
            break
        shifts.append(float(np.median(later)))
    return shifts


def _factors(node: NodeSummary, sample: Sample, position: int, shifts: list[float]) -> list[float]:
    """The logarithm of the slowdown in each measurement that has controls."""
    first, *later = node.rates[sample.metric]
    own = -float(sample.deviations[position])
    repeated = zip(later, shifts, strict=False)
    return [own, *(own - math.log(rate / first) + shift for rate, shift in repeated)]


def _spreads(
    nodes: Sequence[NodeSummary], samples: list[Sample], trials: int, freedom: float, *, live: bool
) -> list[Spread]:
    import numpy as np

    known = [each for each in samples if len(each.members) >= FEWEST]
    pool = [each.deviations / each.scatter for each in known]
    pooled = np.concatenate(pool) if pool else np.array([])
    spreads = []
    for each in samples:
        count = len(each.members)
        spread = Spread(metric=each.metric, nodes=count, median=math.exp(each.median))
        if count >= FEWEST:
            rounds = required(count, 1, len(samples)) if live else 1
            point, high = found(each.deviations, each.scatter, pooled, CANDIDATE, rounds)
            single = single_bound(count, trials, freedom) * each.scatter
            spread = Spread(
                metric=each.metric,
                nodes=count,
                median=math.exp(each.median),
                scatter=each.scatter,
                bound=math.exp(each.bound),
                single=math.exp(min(max(single, each.bound), 50.0)),
                found=point,
                found_high=high,
                groups=_groups(nodes, each),
                factor=each.division.factor if each.division else 1.0,
            )
        spreads.append(spread)
    return spreads


def _groups(nodes: Sequence[NodeSummary], sample: Sample) -> tuple[Group, ...]:
    """The two groups of a class, the larger one first and without names."""
    import numpy as np

    if sample.division is None:
        return ()
    groups = []
    for slow in (True, False):
        chosen = np.flatnonzero(sample.division.slow == slow)
        names = tuple(nodes[sample.members[int(position)]].node for position in chosen)
        rate = math.exp(float(np.median(sample.values[chosen])))
        groups.append(Group(value=f"{rate:.6g}", count=len(names), nodes=names))
    return tuple(sorted(groups, key=lambda group: -group.count))


def _metrics(nodes: Sequence[NodeSummary], samples: dict[str, list[Sample]]) -> tuple[Metric, ...]:
    """Each node's rate by the median of its class."""
    import numpy as np

    table: dict[str, list[float | None]] = {}
    for group in samples.values():
        for sample in group:
            row = table.setdefault(sample.metric, [None] * len(nodes))
            relative = np.round(np.exp(sample.values - sample.median), 4)
            for index, value in zip(sample.members, relative.tolist(), strict=True):
                row[index] = value
    return tuple(Metric(name=name, relative=tuple(row)) for name, row in table.items())
