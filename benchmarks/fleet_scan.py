"""`doctor fleet scan --deep` by two ranks with a core each, against one process on one core.

python benchmarks/fleet_scan.py [--gigabytes 12] [--times 3]: writes a checkpoint below the
temporary directory, reads it once to warm the cache, then takes both in turns. What the same
command takes for a checkpoint of 1 MB (start, imports, meeting) is printed apart. The seconds of
the processor are those of all processes: on a busy machine they say what the clock does not.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/support")]

from nodes import DOCTOR, Nodes  # noqa: E402

FLAGS = ("--format", "plain", "--no-config", "-q")
Times = tuple[float, float]
"""Seconds of the clock and of the processor."""


def write(directory: Path, size: int) -> Path:
    """Shards of at most 512 MB of weights in half precision."""
    import numpy
    from safetensors.numpy import save_file

    directory.mkdir()
    values = numpy.random.default_rng(0).normal(0, 0.02, 2**20).astype("float16")
    rows = max(1, min(size, 2**29) // 2**21)
    count = max(1, size // 2**29)
    for shard in range(count):
        weights = numpy.tile(values, (rows, 1))
        save_file({f"layers.{shard}.up_proj.weight": weights},
                  directory / f"model-{shard + 1:05}-of-{count:05}.safetensors")  # fmt: skip
    return directory


def used() -> float:
    times = resource.getrusage(resource.RUSAGE_CHILDREN)
    return times.ru_utime + times.ru_stime


def alone(path: Path) -> Times:
    began, before = time.monotonic(), used()
    words = ["taskset", "-c", "0", *DOCTOR, "scan", str(path), "--deep", *FLAGS]
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began, used() - before


def together(path: Path) -> Times:
    began, before = time.monotonic(), used()
    nodes = Nodes(2, command=(*DOCTOR, "fleet", "scan", str(path), "--deep"), flags=FLAGS)
    nodes.deadline, nodes.secret = 3000.0, "0123456789abcdef"
    for rank in (0, 1):
        nodes.wrapper = ("taskset", "-c", str(rank))
        nodes.start(rank)
    codes = nodes.codes()
    shutil.rmtree(nodes.directory, ignore_errors=True)
    assert set(codes.values()) == {0}, codes
    return time.monotonic() - began, used() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=12.0)
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        large = write(Path(place) / "large", int(args.gigabytes * 2**30))
        small = write(Path(place) / "small", 2**20)
        alone(large)
        for _ in range(args.times):
            (one, one_used), (start, start_used) = alone(large), alone(small)
            (two, two_used), (meet, meet_used) = together(large), together(small)
            print(
                f"one process {one:.1f} s (start {start:.1f}), processor {one_used:.1f} "
                f"({start_used:.1f}); two ranks {two:.1f} s (start {meet:.1f}), processor "
                f"{two_used:.1f} ({meet_used:.1f}); {(one - start) / (two - meet):.2f} times as "
                f"fast after the start, {one / two:.2f} with it",
                flush=True,
            )


if __name__ == "__main__":
    main()
