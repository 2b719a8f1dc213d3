"""A doctor whose node has the GPU and the rates of a recorded machine, with noise of its own.

python benchmarks/measured_node.py fleet run ...: `MEASURED_SLOW` (1.3) is how many times slower its
products of matrices are, in every measurement. All else is examined and exchanged as it is.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

import doctor.cli.run as run_module
from doctor.cli.main import main
from doctor.facts.facts import Facts, decode
from doctor.report.report import Report

RECORDED = Path(__file__).parents[1] / "tests/machines/captured/h100_torch2.11.json"
SLOW = float(os.environ.get("MEASURED_SLOW", "1"))
NOISE = 0.01
examine = run_module.run
examined: list[Report] = []


def measured(facts: Facts) -> Facts:
    """The facts with the recorded GPU, under a UUID of this process, and one more measurement."""
    recorded = decode(RECORDED.read_bytes())
    assert isinstance(recorded.gpus, tuple)
    assert isinstance(recorded.load, tuple)
    change = msgspec.structs.replace

    def noisy(rate: float | None, slow: float = 1.0) -> float | None:
        return None if rate is None else rate * random.gauss(1, NOISE) / slow

    gpus = tuple(change(each, uuid=f"GPU-{os.getpid():08}") for each in recorded.gpus)
    load = tuple(
        change(
            each,
            matmul={name: noisy(rate, SLOW) for name, rate in each.matmul.items()},
            copy=noisy(each.copy),
            to_device=noisy(each.to_device),
            from_device=noisy(each.from_device),
        )
        for each in recorded.load
    )
    return facts.with_(gpus=gpus, load=load)


def run(*args: Any, **kwargs: Any) -> Report:
    """Examine this machine the first time; later only measure."""
    if not examined:
        examined.append(examine(*args, **kwargs))
    return replace(examined[0], facts=measured(examined[0].facts))


if __name__ == "__main__":
    run_module.run = run
    main()
