"""Time the commands against their peers, in turns in one run: `python benchmarks/commands.py`.

explain              against importing typer and rich.console, which any such tool must do
run --device cpu     against torch's own collect_env, which judges nothing
run ... --no-smoke   against importing torch, which any examination of it must do
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PYTHON = sys.executable
DOCTOR = str(Path(PYTHON).with_name("doctor"))


@dataclass(frozen=True)
class Duel:
    """A command, its peer, and the ratio that is still good."""

    name: str
    ours: tuple[str, ...]
    peer: tuple[str, ...]
    target: float


DUELS = (
    Duel(
        "explain NUM002 / import typer, rich.console",
        (DOCTOR, "explain", "NUM002"),
        (PYTHON, "-c", "import typer, rich.console"),
        1.5,
    ),
    Duel(
        "run --device cpu / torch.utils.collect_env",
        (DOCTOR, "run", "--device", "cpu"),
        (PYTHON, "-W", "ignore", "-m", "torch.utils.collect_env"),
        1.0,
    ),
    Duel(
        "run --device cpu --no-smoke / import torch",
        (DOCTOR, "run", "--device", "cpu", "--no-smoke"),
        (PYTHON, "-c", "import torch"),
        1.15,
    ),
)


def seconds(command: tuple[str, ...]) -> float:
    """Wall time of one run, which must succeed."""
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def measure(duel: Duel, rounds: int) -> None:
    """Run both in turns after one warm-up each, and print medians and their ratio."""
    times: dict[tuple[str, ...], list[float]] = {duel.ours: [], duel.peer: []}
    for number in range(rounds + 1):
        for command in (duel.ours, duel.peer):
            spent = seconds(command)
            if number:
                times[command].append(spent)
    ours, peer = (statistics.median(times[command]) for command in (duel.ours, duel.peer))
    ratio = ours / peer
    print(
        f"{duel.name:<46} {ours * 1000:7.0f} ms / {peer * 1000:6.0f} ms = {ratio:4.2f}"
        f"  (target {duel.target:.2f}: {'met' if ratio <= duel.target else 'MISSED'})"
    )


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    for duel in DUELS:
        measure(duel, rounds)
