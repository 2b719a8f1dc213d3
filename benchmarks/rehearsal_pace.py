"""How often the interval of RHS015 contains the mean of a simulated run of 1,000 further steps.

`python benchmarks/rehearsal_pace.py` prints the share of 400 runs, and half the interval's width,
per kind of spread and number of timed steps. `--real SECONDS` instead rehearses trainings of
rehearsal_jobs/plain.py in 40 steps, estimates as many steps as take about so long, and takes them.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

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


JOB = str(Path(__file__).parent / "rehearsal_jobs" / "plain.py")
SHAPES = ("usual", "momentum", "layer norm", "cosine", "no schedule", "workers", "two groups",
          "clips", "dropout", "tied")  # fmt: skip
REHEARSED = 40
TIMED = re.compile(r"\(([0-9.e-]+) s per step")
HOURS = re.compile(r"take ([0-9.e-]+) \(([0-9.e-]+) to ([0-9.e-]+)\) h")


def rehearsed(shape: str, total: int, steps: int = REHEARSED) -> str:
    """The summary of RHS015 for so many steps in all; the command runs once."""
    job = f"{sys.executable} {JOB} --out $TMPDIR --kind '{shape}'"
    line = f"exec {job} --steps {steps} --every {steps}"
    with tempfile.TemporaryDirectory() as directory:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "doctor", "rehearse", "-q", "--no-config", "--format",
             "json", "--only", "RHS015", "--total-steps", str(total), "--", "sh", "-c", line],
            cwd=directory, capture_output=True, text=True, check=False,
        )  # fmt: skip
    return str(json.loads(ended.stdout)["findings"][0]["summary"])


def real(seconds: float) -> None:
    """Estimate against the mean of the steps that are taken, under the same hooks."""
    inside = 0
    for shape in SHAPES:
        found = TIMED.search(rehearsed(shape, 1000))
        if found is None:
            print(f"{shape}: no estimate", flush=True)
            continue
        total = max(200, int(seconds / float(found[1])))
        estimate = HOURS.search(rehearsed(shape, total))
        took = TIMED.search(rehearsed(shape, total, total))
        if estimate is None or took is None:
            print(f"{shape}: no estimate", flush=True)
            continue
        middle, low, high = (3600 * float(text) for text in estimate.groups())
        actual = total * float(took[1])
        inside += low <= actual <= high
        interval = f"{middle:.1f} s ({low:.1f} to {high:.1f})"
        print(f"{shape}: {total} steps, {interval}; took {actual:.1f} s", flush=True)
    print(f"{inside} of {len(SHAPES)} inside")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=float)
    args = parser.parse_args()
    if args.real:
        real(args.real)
        return
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
