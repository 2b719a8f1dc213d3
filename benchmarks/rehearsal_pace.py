"""How often the interval of RHS015 contains the mean of a simulated run of 1,000 further steps.

`python benchmarks/rehearsal_pace.py` prints the share of 400 runs, and half the interval's width,
per kind of spread and number of timed steps.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import islice

from doctor.checks.rehearsal.pace import Pace

RUNS, STEPS = 400, 1000


def normal() -> Iterator[float]:
    while True:
        yield random.gauss(1.0, 0.1)


def lognormal() -> Iterator[float]:
    while True:
        yield random.lognormvariate(0.0, 0.3)


def stalls() -> Iterator[float]:
    """One step in 20 waits for three more."""
    while True:
        yield random.uniform(1.0, 1.05) + (3.0 if random.random() < 0.05 else 0.0)


def alike(correlation: float) -> Iterator[float]:
    """Each step resembles the one before it."""
    state = random.gauss(0.0, 1.0)
    while True:
        fresh = random.gauss(0.0, 1.0)
        state = correlation * state + math.sqrt(1.0 - correlation**2) * fresh
        yield 1.0 + 0.1 * state


KINDS = {
    "normal": normal, "lognormal": lognormal, "correlation 0.5": lambda: alike(0.5),
    "correlation 0.9": lambda: alike(0.9), "stalls": stalls,
}  # fmt: skip


def main() -> None:
    random.seed(1)
    for name, make in KINDS.items():
        for count in (10, 17, 50):
            inside, width = 0, 0.0
            for _ in range(RUNS):
                seconds = make()
                low, high = Pace(list(islice(seconds, count)), 0.0, 0).interval(STEPS)
                inside += low <= sum(islice(seconds, STEPS)) / STEPS <= high
                width += (high - low) / 2 / RUNS
            print(
                f"{name}, {count} steps: {inside / RUNS:.0%} inside, half the width {width:.3f} s"
            )


if __name__ == "__main__":
    main()
