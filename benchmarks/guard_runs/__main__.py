"""Runs the programs, one process each, and compares their alarms with what is expected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from . import (
    architectures,
    distributed,
    faulty_steps,
    faulty_updates,
    faulty_values,
    loops,
    optimizers,
    trainers,
)

HEALTHY = (optimizers, loops, architectures, trainers, distributed)
FAULTY = (faulty_values, faulty_updates, faulty_steps, distributed)
CLEAN = {run.__name__: run for module in HEALTHY for run in module.CLEAN}
FAULTS = {run.__name__: (code, run) for module in FAULTY for code, run in module.FAULTS}
RANKS = {run.__name__ for run in distributed.CLEAN} | {
    run.__name__ for _, run in distributed.FAULTS
}
"""Runs whose ranks have a guard each."""


def run_one(name: str) -> None:
    """In a process of its own: the run under the guard; alarms as JSON on the last line."""
    import torch

    import doctor.guard

    torch.set_num_threads(1)
    run = CLEAN.get(name) or FAULTS[name][1]
    out = os.environ["GUARD_OUT"]
    guarded = os.environ.get("GUARD") != "off"
    guard = doctor.guard.watch(out=out) if guarded and name not in RANKS else None
    torch.manual_seed(0)
    run()
    if guard is not None:
        guard.close()
    print()


def alarms_of(out: Path) -> tuple[list[tuple[str, str, int]], int]:
    alarms: dict[tuple[str, str], int] = {}
    steps = 0
    for path in sorted(out.glob("rank*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["kind"] == "alarm":
                alarms.setdefault((record["code"], record["status"]), record["step"])
            elif record["kind"] == "state":
                steps = max(steps, record["steps"])
            elif record["kind"] == "end" and record["how"] != "exit":
                alarms["GUARD", record["how"]] = 0
    return [(code, status, step) for (code, status), step in alarms.items()], steps


def main(names: list[str]) -> int:
    groups = {"clean": list(CLEAN), "faults": list(FAULTS)}
    chosen = [n for name in names or groups for n in groups.get(name, [name])]
    bad = 0
    for name in chosen:
        out = Path(tempfile.mkdtemp())
        child = subprocess.run(
            [sys.executable, "-m", __package__, "--one", name],
            env=dict(os.environ, GUARD_OUT=str(out)),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        alarms, steps = alarms_of(out)
        told = ", ".join(f"{code} {status} at {step}" for code, status, step in alarms) or "-"
        expected = FAULTS[name][0] if name in FAULTS else ""
        good = child.returncode == 0 and (
            any(code == expected for code, *_ in alarms) if expected else not alarms and steps
        )
        bad += not good
        print(
            f"{'ok ' if good else 'BAD'} {name:36} {steps:5} steps  {expected:7} {told}", flush=True
        )
        if child.returncode:
            print(child.stderr[-1500:])
    print(f"{len(chosen)} runs, {bad} not as expected")
    return bool(bad)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
