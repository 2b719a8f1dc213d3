"""Plants faults in fleets of real processes, and says whether each ends in time with a name.

python benchmarks/fleet_faults.py [CASE...]: all cases, or these. Every node is a process on this
machine. A case passes if every doctor ends within its deadline + 2 s, what must be said is said,
and no process of the case is left. Cases that need root, network namespaces or Slurm are skipped
without them; a skip is counted and proves nothing.

On a busy machine a second of a processor takes several: how many is measured beside each case
("load") and stretches the 2 s. A case that fails there is tried once more with twice the deadline,
and both results are printed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "tests/support")]

import fleet_cases  # noqa: E402
import fleet_differences  # noqa: E402
from fleet_cases import MARK, command_of, marked  # noqa: E402
from fleet_networks import SkipCase  # noqa: E402
from nodes import EXAMINE, Nodes  # noqa: E402

OF_ROOT = (*fleet_cases.OF_ROOT, *fleet_differences.OF_ROOT)
CASES = {case.__name__: case for case in (*fleet_cases.CASES, *fleet_differences.CASES, *OF_ROOT)}
BEYOND = 2.0
LEAST_DEADLINE, MOST_DEADLINE, EXAMINATIONS = 60.0, 240.0, 6
"""Seconds, and how often the time of one examination here: a busy machine gets a later deadline, of
which a quarter is for what the nodes do together."""
SECRET = "0123456789abcdef"
WORK, PAUSE = 0.05, 2.0
"""Seconds of a processor that tell the load, and between two looks."""
OLD = 180.0
"""Seconds after which the time of an examination is measured again."""
BUSY = 1.3
"""The load from which a failure may be the machine's."""


class Machine:
    """How many seconds a second of a processor takes, measured while a case runs."""

    def __init__(self) -> None:
        self._looks: list[float] = []
        self._over = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self._over.wait(PAUSE):
            began, spent = time.monotonic(), time.thread_time()
            while time.thread_time() - spent < WORK:
                pass
            self._looks.append((time.monotonic() - began) / (time.thread_time() - spent))

    def load(self) -> float:
        """The median of the looks."""
        self._over.set()
        return max(1.0, statistics.median(self._looks)) if self._looks else 1.0


def late(nodes: Nodes, load: float) -> list[str]:
    """Doctors that ended later than they may; a killed one has no say."""
    return [
        f"n{rank} ended {beyond:.1f} s after its deadline; at most {BEYOND * load:.1f}"
        for rank, node in nodes.nodes.items()
        if (beyond := node.ended - node.started - nodes.deadline) > BEYOND * load
        and node.process.returncode != -9
    ]


def watch(nodes: Nodes) -> None:
    """Note when each process ends, whoever else waits."""

    def watching() -> None:
        while not nodes.over:
            for node in list(nodes.nodes.values()):
                if not node.ended and node.process.poll() is not None:
                    node.ended = time.monotonic()
            time.sleep(0.05)

    threading.Thread(target=watching, daemon=True).start()


def deadline() -> float:
    """Of the nodes of a case, by the time that a doctor alone takes now; whole."""
    began = time.monotonic()
    alone = Nodes(1, deadline=600.0, python=sys.executable, flags=EXAMINE)
    alone.run()
    shutil.rmtree(alone.directory, ignore_errors=True)
    took = time.monotonic() - began
    return float(round(min(MOST_DEADLINE, max(LEAST_DEADLINE, EXAMINATIONS * took))))


def run(name: str, seconds: float) -> tuple[str, list[str], str, float]:
    """ "pass", "FAIL" or "skip", what was wrong, figures, and the load."""
    function = CASES[name]
    if function in OF_ROOT and (os.geteuid() or not shutil.which("unshare")):
        return "skip", ["it needs root, unshare and ip"], "", 1.0
    nodes = Nodes(3, deadline=seconds, secret=SECRET, python=sys.executable, flags=EXAMINE)
    os.environ[MARK] = str(nodes.directory)
    watch(nodes)
    machine = Machine()
    try:
        wrong = function(nodes)
    except SkipCase as reason:
        return "skip", [str(reason)], "", 1.0
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        wrong = [f"{type(error).__name__}: {error}"]
    else:
        time.sleep(0.2)
        wrong += late(nodes, machine.load())
        time.sleep(1.0)
        left = marked(nodes)
        wrong += [f"left: {pid} {command_of(pid)[:200]!r}" for pid in left if pid != os.getpid()]
    finally:
        load = machine.load()
        nodes.over = True
        nodes.end()
    longest = max((n.ended - n.started for n in nodes.nodes.values() if n.ended), default=0.0)
    shutil.rmtree(nodes.directory, ignore_errors=True)
    figures = f"{longest:.1f} s at most, deadline {nodes.deadline:g} s, load {load:.1f}"
    return ("FAIL" if wrong else "pass"), wrong, figures, load


def main(names: list[str]) -> int:
    counts = {"pass": 0, "FAIL": 0, "skip": 0}
    again = 0
    measured = -OLD
    for name in names or CASES:
        if time.monotonic() - measured > OLD:
            seconds, measured = deadline(), time.monotonic()
        outcome, details, figures, load = run(name, seconds)
        if outcome == "FAIL" and load >= BUSY:
            again += 1
            print(f"once more: {name} ({figures})", *details, sep="\n     ", flush=True)
            outcome, details, figures, load = run(name, 2 * seconds)
        counts[outcome] += 1
        print(f"{outcome} {name} ({figures})", *details, sep="\n     ", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()), end="")
    print(f"; {again} tried twice" if again else "")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    tempfile.tempdir = os.environ.get("TMPDIR", "/tmp")
    sys.exit(main(sys.argv[1:]))
