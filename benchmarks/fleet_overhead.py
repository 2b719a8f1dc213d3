"""What a fleet of eight doctors on this machine takes beyond eight doctors at once without one.

python benchmarks/fleet_overhead.py [--nodes 8] [--times 5]: both in turns, each from the start of
the first doctor to the end of the last one. The median of the differences, and the ratio, are of
pairs that followed each other. `--collectives` is off: nobody else reduces either.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/support")]

from nodes import DOCTOR, EXAMINE, Nodes  # noqa: E402


def took(count: int, command: tuple[str, ...], address: tuple[str, ...]) -> float:
    """Seconds until all have ended."""
    nodes = Nodes(count, python=sys.executable, command=command, address=address)
    nodes.flags, nodes.secret = EXAMINE, "0123456789abcdef"
    began = time.monotonic()
    codes = nodes.run()
    seconds = time.monotonic() - began
    shutil.rmtree(nodes.directory, ignore_errors=True)
    assert set(codes.values()) == {0}, codes
    return seconds


def apart(count: int) -> float:
    """The same doctors, each a fleet of one: `--nodes 1` overrides the launcher."""
    alone = (*DOCTOR, "fleet", "run", "--node-rank", "0", "--nodes", "1")
    nodes = Nodes(1, python=sys.executable, command=alone, address=())
    nodes.flags = EXAMINE
    began = time.monotonic()
    started = [nodes.start(0) for _ in range(count)]
    codes = {each.wait() for each in started}
    seconds = time.monotonic() - began
    shutil.rmtree(nodes.directory, ignore_errors=True)
    assert codes == {0}, codes
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    pairs = []
    for _ in range(args.times):
        without = apart(args.nodes)
        fleet = took(args.nodes, (*DOCTOR, "fleet", "run"), ("--address", "127.0.0.1"))
        pairs.append((without, fleet))
        print(f"{args.nodes} doctors {without:.2f} s, as a fleet {fleet:.2f} s", flush=True)
    beyond = statistics.median(fleet - without for without, fleet in pairs)
    ratio = statistics.median(fleet / without for without, fleet in pairs)
    print(f"median: {beyond:+.2f} s, {ratio:.2f} times")


if __name__ == "__main__":
    main()
