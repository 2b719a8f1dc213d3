"""`doctor fleet scan --deep` by two ranks with a core each, against one process on one core.

python benchmarks/fleet_scan.py [--gigabytes 4] [--times 3]: writes a checkpoint below the
temporary directory, reads it once to warm the cache, then takes both in turns. What the same
command takes for a checkpoint of 1 MB (start, imports, meeting) is printed apart. The clock is for
a quiet machine; the seconds of a processor for the whole and for each share say on a busy one how
much faster the longer share is.
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
    """Shards of at most 512 MB of weights in half precision, each with values of its own: copies of
    a matrix are compared with it, by one of the ranks."""
    import numpy
    from safetensors.numpy import save_file

    directory.mkdir()
    rows = max(1, min(size, 2**29) // 2**21)
    count = max(1, size // 2**29)
    for shard in range(count):
        values = numpy.random.default_rng(shard).normal(0, 0.02, 2**20).astype("float16")
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


SHARE = """
import sys, time
from contextlib import nullcontext
from doctor.checkpoint.contents import ScanRequest, read
def look(*share):
    began = time.process_time()
    request = ScanRequest(path=sys.argv[1], deep=True, share=share)
    read(request, lambda stage: nullcontext(), lambda note: None)
    return time.process_time() - began
look(0, 1)
print(look(0, 1), look(0, 2), look(1, 2))
"""


def shares(path: Path) -> list[float]:
    """Seconds of a processor: of one reader, and of each of two."""
    words = ["taskset", "-c", "0", sys.executable, "-c", SHARE, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        large = write(Path(place) / "large", int(args.gigabytes * 2**30))
        small = write(Path(place) / "small", 2**20)
        alone(large)
        for _ in range(args.times):
            whole, first, second = shares(large)
            print(
                f"processor: {whole:.2f} s for all values, {first:.2f} and {second:.2f} s for its "
                f"shares: {whole / max(first, second):.2f} times as fast"
            )
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
