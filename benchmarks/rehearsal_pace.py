"""How often the interval of RHS015 contains the mean of a simulated run of 1,000 further steps.

`python benchmarks/rehearsal_pace.py` prints the share of 400 runs, and half the interval's width,
per kind of spread and number of timed steps. `--real SECONDS` instead rehearses the trainings of
rehearsal_jobs/paced.py (all, or the `--shapes` that are named), estimates as many steps as take
about so long, and runs each training without the doctor: its whole duration, with the start, is
compared.
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
import time
from collections.abc import Iterator, Sequence
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


JOB = str(Path(__file__).parent / "rehearsal_jobs" / "paced.py")
SHAPES = ("usual", "lengths", "images", "augmented", "recurrent", "wide", "accumulates",
          "recomputed", "evaluates", "workers")  # fmt: skip
EVERY, TRIED, REHEARSED = 20, 20, 90.0
"""Steps between saves, steps that tell how long one takes, and seconds of the rehearsal."""
TOOK = re.compile(r"took ([0-9.]+) s")
HOURS = re.compile(r"take ([0-9.e-]+) \(([0-9.e-]+) to ([0-9.e-]+)\) h")
ADDED = re.compile(r"adds ([0-9.e-]+) h")


def job(shape: str, steps: int, out: str) -> list[str]:
    words = ["--out", out, "--kind", shape, "--steps", str(steps), "--every", str(EVERY)]
    return [sys.executable, JOB, *words]


def alone(shape: str, steps: int) -> tuple[float, float]:
    """Seconds of the training without the doctor, from its start to its end, and of its loop."""
    with tempfile.TemporaryDirectory() as out:
        began = time.monotonic()
        ended = subprocess.run(job(shape, steps, out), capture_output=True, text=True, check=True)
        seconds = time.monotonic() - began
    found = TOOK.search(ended.stdout)
    return seconds, float(found[1]) if found else math.nan


def estimated(shape: str, steps: int, total: int) -> str:
    """The summary of RHS015; the command runs once, as it has no {output}."""
    words = job(shape, steps, "$TMPDIR")
    with tempfile.TemporaryDirectory() as directory:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "doctor", "rehearse", "-q", "--no-config", "--format",
             "json", "--only", "RHS015", "--total-steps", str(total), "--",
             "sh", "-c", f"exec {' '.join(words)}"],
            cwd=directory, capture_output=True, text=True, check=False,
        )  # fmt: skip
    return str(json.loads(ended.stdout)["findings"][0]["summary"])


def real(seconds: float, shapes: Sequence[str]) -> None:
    """Estimates, each beside the training itself, which runs without the doctor."""
    inside = 0
    for shape in shapes:
        each = alone(shape, TRIED)[1] / TRIED
        total = max(200, int(seconds / each))
        summary = estimated(shape, max(64, int(REHEARSED / each)), total)
        whole, loop = alone(shape, total)
        estimate, added = HOURS.search(summary), ADDED.search(summary)
        if estimate is None:
            print(f"{shape}: no estimate: {summary}", flush=True)
            continue
        more = 3600 * float(added[1]) if added else 0.0
        middle, low, high = (3600 * float(text) + more for text in estimate.groups())
        inside += low <= whole <= high
        print(
            f"{shape}: {total} steps, {middle:.1f} s ({low:.1f} to {high:.1f}), interval "
            f"{(high - low) / middle:.0%} wide; took {whole:.1f} s, its loop {loop:.1f} s "
            f"({whole / middle - 1:+.1%}); {summary}",
            flush=True,
        )
    print(f"{inside} of {len(shapes)} inside")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=float)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES)
    args = parser.parse_args()
    if args.real:
        real(args.real, args.shapes)
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
