"""Starts the doctor many times beside busy loops, and counts how its processes end.

    python benchmarks/starts.py [--runs 500] [--loops 8] [--at-once 1] [-- ARGUMENTS OF doctor]

Exits 1 if a run ends with a code that is not documented, prints a traceback, prints nothing on
stdout, or takes longer than `--seconds`. The output of such runs is kept in a directory that is
named at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from turns import ROOT, busy

DOCUMENTED = (0, 1, 3)
"""Of the documented codes those that a run may have which is neither mistyped nor interrupted."""
CHEAPEST = ("run", "--no-config", "--device", "cpu", "--no-smoke")
LOOP = "while True: pass"


@dataclass(frozen=True)
class Start:
    """One run: its exit code, None if it took too long, and what it printed."""

    code: int | None
    seconds: float
    stdout: str
    stderr: str

    @property
    def problem(self) -> str:
        """What is wrong with how it ended, "" if nothing is."""
        if self.code is None:
            return "too long"
        if self.code not in DOCUMENTED:
            return f"exit {self.code}"
        if "Traceback" in self.stderr:
            return "traceback"
        return "" if self.stdout.strip() else "no report"


def start(arguments: tuple[str, ...], seconds: float) -> Start:
    began = time.perf_counter()
    command = [sys.executable, "-m", "doctor", *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as late:
        texts = [str(text or "") for text in (late.stdout, late.stderr)]
        return Start(None, time.perf_counter() - began, *texts)
    return Start(done.returncode, time.perf_counter() - began, done.stdout, done.stderr)


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--loops", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("doctor", nargs="*", help="arguments of the doctor, after --")
    options = parser.parse_args()
    arguments = tuple(options.doctor) or CHEAPEST
    with busy_loops(options.loops), ThreadPoolExecutor(options.at_once) as pool:
        running = pool.map(lambda _: start(arguments, options.seconds), range(options.runs))
        starts = []
        for each in running:
            starts.append(each)
            if each.problem or len(starts) % 50 == 0:
                print(f"{len(starts):>4}  {each.problem or 'ok'}", flush=True)
        load = busy()
    times = [each.seconds for each in starts]
    print(f"\ndoctor {' '.join(arguments)}: {len(starts)} runs, {options.loops} loops, {load}")
    print(f"seconds: median {statistics.median(times):.1f}, longest {max(times):.1f}")
    for code, count in sorted(Counter(str(each.code) for each in starts).items()):
        print(f"exit {code:<5} {count:>5}")
    problems = [each for each in starts if each.problem]
    print(f"outside the documented set {DOCUMENTED}, or without a report: {len(problems)}")
    if problems:
        print(f"kept in {keep(problems)}")
        sys.exit(1)


def keep(problems: list[Start]) -> Path:
    """The outputs as files."""
    directory = Path(tempfile.mkdtemp(prefix="doctor-starts-"))
    for number, each in enumerate(problems):
        text = f"{each.problem}\n{each.stdout}\n{each.stderr}"
        (directory / f"{number}.txt").write_text(text, "utf-8", "replace")
    return directory


if __name__ == "__main__":
    main()
