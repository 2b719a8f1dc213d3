"""How often healthy noise raises GRD014, and how small a jump it finds.

    python tests/support/noisy_losses.py [RUNS]

Each run has 4,000 steps; a run counts once, however many alarms it has. The noise multiplies a
loss that falls from 4 to 2, but for the two of both signs. `jump` adds a level from step 2,000 on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np  # noqa: TID253

from doctor.guard.spikes import Spikes

STEPS = 4000
Noise = Callable[[np.random.Generator], np.ndarray]
NOISE: dict[str, Noise] = {
    "normal 1 %": lambda random: 1 + 0.01 * random.standard_normal(STEPS),
    "normal 10 %": lambda random: 1 + 0.1 * random.standard_normal(STEPS),
    "lognormal 0.3": lambda random: np.exp(0.3 * random.standard_normal(STEPS)),
    "lognormal 0.6": lambda random: np.exp(0.6 * random.standard_normal(STEPS)),
    "lognormal 1.0": lambda random: np.exp(random.standard_normal(STEPS)),
    "squared error of 1": lambda random: random.standard_normal(STEPS) ** 2,
    "squared errors of 4": lambda random: (random.standard_normal((STEPS, 4)) ** 2).mean(1),
    "squared errors of 16": lambda random: (random.standard_normal((STEPS, 16)) ** 2).mean(1),
    "Student's t, 3": lambda random: np.exp(0.1 * random.standard_t(3, STEPS)),
    "drifting": lambda random: np.exp(_drift(random, 0.3)),
    "diffusion": lambda random: random.beta(0.5, 3.0, STEPS) + 0.01,
    "policy, both signs": lambda random: random.standard_t(4, STEPS) * 0.02,
    "adversarial, both signs": lambda random: _drift(random, 1.0),
}
BOTH_SIGNS = {"policy, both signs", "adversarial, both signs"}


def _drift(random: np.random.Generator, size: float) -> np.ndarray:
    """Noise whose values resemble those before: a correlation of 0.9."""
    values, value = np.empty(STEPS), 0.0
    for step, push in enumerate(random.standard_normal(STEPS)):
        value = 0.9 * value + size * push * (1 - 0.81) ** 0.5
        values[step] = value
    return values


def losses(name: str, random: np.random.Generator) -> np.ndarray:
    """One healthy series."""
    noise = NOISE[name](random)
    if name in BOTH_SIGNS:
        return noise
    return (2 + 2 * np.exp(-np.arange(STEPS) / 800)) * noise


def alarmed(series: np.ndarray) -> bool:
    spikes = Spikes()
    return any([spikes.add(value) is not None for value in series.tolist()])


def rates(runs: int) -> dict[str, float]:
    """The share of healthy runs with an alarm, by kind of noise."""
    random = np.random.default_rng(0)
    return {name: sum(alarmed(losses(name, random)) for _ in range(runs)) / runs for name in NOISE}


def power(runs: int, name: str, factor: float) -> float:
    """The share of runs whose loss jumps by the factor at step 2,000 that are named."""
    random = np.random.default_rng(1)
    level = np.where(np.arange(STEPS) < STEPS // 2, 1.0, factor)
    return sum(alarmed(losses(name, random) * level) for _ in range(runs)) / runs


def main(runs: int) -> None:
    print(f"| noise, {runs} runs of {STEPS:,} steps | alarms | jump of 1.5 | of 3 | of 10 |")
    print("|---|---|---|---|---|")
    for name, rate in rates(runs).items():
        found = [power(max(1, runs // 10), name, factor) for factor in (1.5, 3.0, 10.0)]
        print(f"| {name} | {rate:.2%} | {' | '.join(f'{share:.0%}' for share in found)} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
