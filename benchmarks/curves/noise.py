"""False alarms and power of the rules over curves, all rules of a log together.

    python benchmarks/curves/noise.py [--logs 300] [--lengths 20,40,100,400,4000] [--real FILE]

Stationary noise of the kinds that losses have, real healthy trainings (tests/corpus/curves.jsonl),
and planted faults. A rate comes with its 95 % interval (Clopper and Pearson).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from logs import curve, findings, with_curves  # noqa: E402

Values = list[float]
Chance = random.Random
REAL = ROOT / "tests" / "corpus" / "curves.jsonl"
SLUGS = ("loss-spike", "loss-divergence", "loss-plateau")


def gaussian(share: float) -> Callable[[Chance, int], Values]:
    return lambda chance, points: [max(1e-3, 1 + share * chance.gauss(0, 1)) for _ in range(points)]


def lognormal(sigma: float) -> Callable[[Chance, int], Values]:
    return lambda chance, points: [chance.lognormvariate(0, sigma) for _ in range(points)]


def squared(batch: int) -> Callable[[Chance, int], Values]:
    """Mean squared errors of a batch."""
    return lambda chance, points: [chance.gammavariate(batch / 2, 2 / batch) for _ in range(points)]


def _preference(chance: Chance, points: int) -> Values:
    return [
        sum(math.log1p(math.exp(-chance.gauss(1.5, 2))) for _ in range(4)) / 4
        for _ in range(points)
    ]


def _adversarial(chance: Chance, points: int) -> Values:
    """Noise around a level that wanders: neighbours resemble each other."""
    level, values = 0.0, []
    for _ in range(points):
        level = 0.9 * level + chance.gauss(0, 0.15)
        values.append(math.exp(level + chance.gauss(0, 0.2)))
    return values


def _policy(chance: Chance, points: int) -> Values:
    return [chance.gauss(0, 1) * chance.expovariate(1) for _ in range(points)]


def _value(chance: Chance, points: int) -> Values:
    """Squared errors with heavy tails: Student's distribution with four degrees of freedom."""
    return [
        sum(chance.gauss(0, 1) ** 2 / (chance.gammavariate(2, 2) / 4) for _ in range(8)) / 8
        for _ in range(points)
    ]


def _diffusion(chance: Chance, points: int) -> Values:
    """The error depends on the noise level that is drawn for each sample of a batch of two."""
    return [
        sum(
            (0.02 + chance.random() ** 4) * chance.gammavariate(8, 1 / 8) for _ in range(2)
        ) / 2
        for _ in range(points)
    ]  # fmt: skip


def _smoothed(chance: Chance, points: int) -> Values:
    """A running mean, as progress bars print it."""
    mean, values = 1.0, []
    for _ in range(points):
        mean = 0.95 * mean + 0.05 * chance.lognormvariate(-0.125, 0.5)
        values.append(mean)
    return values


NOISE: dict[str, Callable[[Chance, int], Values]] = {
    **{f"Gaussian, {share:.0%}": gaussian(share) for share in (0.05, 0.2)},
    **{f"lognormal {sigma}": lognormal(sigma) for sigma in (0.3, 0.5, 0.8, 1.0)},
    **{f"squared errors, batch {batch}": squared(batch) for batch in (1, 2, 4, 16)},
    "DPO-like": _preference,
    "GAN-like": _adversarial,
    "RL-like, policy": _policy,
    "RL-like, value": _value,
    "diffusion-like": _diffusion,
    "running mean": _smoothed,
}


def falling(chance: Chance, points: int, sigma: float) -> Values:
    """A loss that falls to a fifth, with noise."""
    return [
        (0.5 + 2 * math.exp(-6 * at / points)) * chance.lognormvariate(0, sigma)
        for at in range(points)
    ]


def _divergence(factor: float) -> Callable[[Values], Values]:
    """The level rises to a multiple over the last quarter."""

    def planted(values: Values) -> Values:
        start = len(values) * 3 // 4
        span = max(1, len(values) - start) / 2
        return [
            value * factor ** min(1.0, max(0.0, (at - start) / span))
            for at, value in enumerate(values)
        ]

    return planted


def _spike(factor: float, length: int) -> Callable[[Values], Values]:
    def planted(values: Values) -> Values:
        start = len(values) * 2 // 3
        return [
            value * (factor if start <= at < start + length else 1)
            for at, value in enumerate(values)
        ]

    return planted


FAULTS: dict[str, tuple[str, Callable[[Values], Values]]] = {
    "ends 2x above": ("loss-divergence", _divergence(2)),
    "ends 4x above": ("loss-divergence", _divergence(4)),
    "ends 10x above": ("loss-divergence", _divergence(10)),
    "spike of 3x, 1 value": ("loss-spike", _spike(3, 1)),
    "spike of 10x, 1 value": ("loss-spike", _spike(10, 1)),
    "spike of 10x, 10 values": ("loss-spike", _spike(10, 10)),
}


def statuses(values: Sequence[float], lowest: str = "warn") -> dict[str, str]:
    """Slug -> note, warn or fail, of a log with this loss alone."""
    found = findings(with_curves(curve("loss", list(values))))
    counted = ("note", "warn", "fail")[("note", "warn", "fail").index(lowest) :]
    return {slug: str(each.status) for slug, each in found.items() if each.status in counted}


def interval(hits: int, logs: int) -> str:
    """The share, and between which shares it is by 95 % certainty."""
    low = 0.0 if hits == 0 else _root(lambda p: 1 - _at_most(hits - 1, logs, p) - 0.025)
    high = 1.0 if hits == logs else _root(lambda p: 0.025 - _at_most(hits, logs, p))
    return f"{hits / logs:6.1%} ({low:.1%} to {high:.1%})"


def _at_most(hits: int, logs: int, share: float) -> float:
    """The binomial distribution, by logarithms: the coefficients are too large for floats."""
    lost, won = math.log1p(-share), math.log(share)
    total = math.lgamma(logs + 1)
    return sum(
        math.exp(
            total - math.lgamma(n + 1) - math.lgamma(logs - n + 1) + n * won + (logs - n) * lost
        )
        for n in range(hits + 1)
    )


def _root(function: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return low


def alarms(logs: Sequence[Values]) -> tuple[int, int, Counter[str]]:
    """Logs that fail, logs that only warn, and the rules that did it."""
    fails = warns = 0
    rules: Counter[str] = Counter()
    for values in logs:
        found = statuses(values)
        fails += "fail" in found.values()
        warns += bool(found) and "fail" not in found.values()
        rules.update(list(found))
    return fails, warns, rules


def _print_alarms(lengths: Sequence[int], count: int) -> None:
    print(f"\nstationary noise, {count} logs of each kind and length: FAIL / WARN per log")
    for points in lengths:
        total = [0, 0, 0]
        for name, make in NOISE.items():
            logs = [make(random.Random(f"{name} {points} {n}"), points) for n in range(count)]
            fails, warns, rules = alarms(logs)
            total = [total[0] + fails, total[1] + warns, total[2] + count]
            if fails or warns:
                print(f"  {points:5} {name:26} {fails:4} {warns:4}  {dict(rules)}")
        print(f"  {points:5} all: FAIL {interval(total[0], total[2])}, "
              f"WARN {interval(total[1], total[2])}", flush=True)  # fmt: skip


def _print_real(path: Path, lengths: Sequence[int]) -> None:
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    print(f"\nreal healthy trainings: {len(runs)}")
    for points in lengths:
        logs = {run["name"]: run["loss"][:points] for run in runs if len(run["loss"]) >= points}
        fails, warns, _ = alarms(list(logs.values()))
        named = {name: found for name, values in logs.items() if (found := statuses(values))}
        print(f"  {points:5} of {len(logs)}: FAIL {fails}, WARN {warns} {named or ''}")


def _print_power(lengths: Sequence[int], count: int) -> None:
    print(f"\nfound of {count} planted faults, by the noise of the log; below 100 values a note")
    for points in lengths:
        for name, (slug, plant) in FAULTS.items():
            shares = []
            for sigma in (0.02, 0.1, 0.3, 0.5, 0.8):
                chances = [random.Random(f"{name} {points} {sigma} {n}") for n in range(count)]
                found = [
                    slug in statuses(plant(falling(chance, points, sigma)), "note")
                    for chance in chances
                ]
                shares.append(f"{sigma}: {sum(found) / count:4.0%}")
            print(f"  {points:5} {name:26} {'  '.join(shares)}", flush=True)
        flat = [lognormal(0.005)(random.Random(f"flat {points} {n}"), points) for n in range(count)]
        found = ["loss-plateau" in statuses(values, "note") for values in flat]
        print(f"  {points:5} {'plateau, noise 0.005':26} {sum(found) / count:4.0%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=300)
    parser.add_argument("--lengths", default="20,40,100,400,4000")
    parser.add_argument("--real", type=Path, default=REAL)
    options = parser.parse_args()
    lengths = [int(length) for length in options.lengths.split(",")]
    _print_real(options.real, lengths)
    _print_alarms(lengths, options.logs)
    _print_power([points for points in lengths if points in (40, 100, 400)], options.logs // 3)


if __name__ == "__main__":
    main()
