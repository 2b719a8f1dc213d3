"""How often healthy nodes are called slow, and whether the printed sensitivity is true.

    python benchmarks/stragglers.py [--fleets 300] [--coverage 125] [--sizes 16 512 10000]
                                    [--noises normal heavy cloud]

Each fleet has 12 metrics. Noise of a measurement: normal (1 %), heavy-tailed (Student's t with 3
degrees of freedom, scale 1 %), and that of a cloud: normal, and 2 % of the nodes have a noisy
neighbour that makes all their rates 10 to 50 % lower, other nodes in each measurement. Nodes in
`again` are measured again, until none is left, as `doctor fleet run` does. A tenth of the fleets
suffices for 10,000 nodes unless they are asked for alone. The sensitivity is tried four times in
each of so many fleets, in other nodes and metrics, and printed with the error of its share.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np  # noqa: TID253 - a program of its own

from doctor.facts.fleet import NodeSummary
from doctor.fleet.repeats import settled
from doctor.fleet.stragglers import analyse

METRICS = 12
Noise = Callable[[Any, int], Any]


def normal(random: Any, nodes: int) -> Any:
    return random.normal(0, 0.01, (nodes, METRICS))


def heavy(random: Any, nodes: int) -> Any:
    return 0.01 * random.standard_t(3, (nodes, METRICS))


def cloud(random: Any, nodes: int) -> Any:
    noise = normal(random, nodes)
    disturbed = random.random(nodes) < 0.02
    return noise - disturbed[:, None] * random.uniform(0.1, 0.5, (nodes, 1))


NOISES: dict[str, Noise] = {"normal": normal, "heavy": heavy, "cloud": cloud}


def fleet(values: Any) -> list[NodeSummary]:
    """Summaries with these rates, by metric; `values` are logarithms."""
    rates = (1e12 * np.exp(values)).tolist()
    return [
        NodeSummary(
            node=f"n{number}",
            classed="8 × H200",
            rates={f"m{metric}": (rate,) for metric, rate in enumerate(row)},
        )
        for number, row in enumerate(rates)
    ]


def settle(random: Any, nodes: list[NodeSummary], noise: Noise,
           slowed: dict[str, Any]) -> tuple[set[str], set[str], int]:  # fmt: skip
    """Nodes that are called slow after re-measurement, those called so at once, and rounds.

    `slowed` has the logarithms of what is slow.
    """
    rounds = 1

    def measure(chosen: Sequence[NodeSummary]) -> dict[str, dict[str, float]]:
        nonlocal rounds
        rounds += 1
        rows = dict(zip((node.node for node in nodes), noise(random, len(nodes)), strict=True))
        found = {}
        for node in chosen:
            row = rows[node.node] + slowed.get(node.node, np.zeros(METRICS))
            found[node.node] = dict(zip(node.rates, rates_of(row), strict=True))
        return found

    certain = {each.node for each in analyse(nodes, live=True).slow if each.certain}
    result = analyse(settled(nodes, measure), live=True)
    return {each.node for each in result.slow if each.confirmed}, certain, rounds


def rates_of(row: Any) -> list[float]:
    return [float(rate) for rate in 1e12 * np.exp(row)]


def false_alarms(name: str, count: int, fleets: int) -> str:
    random = np.random.default_rng(count)
    accused = at_once = 0
    rounds = []
    for _ in range(fleets):
        nodes = fleet(NOISES[name](random, count))
        confirmed, certain, taken = settle(random, nodes, NOISES[name], {})
        accused += bool(confirmed)
        at_once += bool(certain)
        rounds.append(taken)
    return (
        f"{name:>7} {count:>6} nodes: {accused} of {fleets} healthy fleets accuse a node after "
        f"re-measurement ({accused / fleets:.1%}); {at_once / fleets:.1%} in a single "
        f"measurement; {np.mean(rounds):.1f} measurements"
    )


def coverage(name: str, count: int, fleets: int, *, live: bool) -> str:
    """A node is slowed by what the report of the healthy fleet prints, in one metric."""
    random = np.random.default_rng(count + 1)
    hits = tries = 0
    printed = []
    for _ in range(fleets):
        values = NOISES[name](random, count)
        spreads = analyse(fleet(values), live=live).classes[0].spreads
        for _ in range(4):
            node, metric = int(random.integers(count)), int(random.integers(METRICS))
            factor = spreads[metric].found or 1.0
            printed.append(factor)
            slow = values.copy()
            slow[node, metric] -= np.log(factor)
            nodes = fleet(slow)
            base = np.zeros(METRICS)
            base[metric] = -np.log(factor)
            tries += 1
            if live:
                confirmed, _, _ = settle(random, nodes, NOISES[name], {f"n{node}": base})
                hits += f"n{node}" in confirmed
            else:
                hits += any(
                    each.node == f"n{node}" and each.metric == f"m{metric}"
                    for each in analyse(nodes).slow
                )
    kind = "all measurements" if live else "one measurement"
    share = hits / tries
    error = math.sqrt(max(share * (1 - share), 1 / tries) / tries)
    return (
        f"{name:>7} {count:>6} nodes, {kind}: {np.median(printed):.3f}x printed, found in "
        f"{share:.1%} (± {error:.1%}) of {tries}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=300)
    parser.add_argument("--coverage", type=int, default=125)
    parser.add_argument("--sizes", type=int, nargs="*", default=[16, 512, 10_000])
    parser.add_argument("--noises", nargs="*", default=[*NOISES], choices=[*NOISES])
    arguments = parser.parse_args()
    for count in arguments.sizes:
        part = 10 if count >= 5000 and len(arguments.sizes) > 1 else 1
        for name in arguments.noises if arguments.fleets else ():
            print(false_alarms(name, count, max(10, arguments.fleets // part)), flush=True)
        for name in [each for each in arguments.noises if arguments.coverage and each != "cloud"]:
            for live in (False, True):
                fleets = max(5, arguments.coverage // part)
                print(coverage(name, count, fleets, live=live), flush=True)


if __name__ == "__main__":
    main()
