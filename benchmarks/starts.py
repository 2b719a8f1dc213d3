"""Starts the doctor many times beside busy loops, and counts how its processes end.

    python benchmarks/starts.py [--runs 500] [--loops 8] [--at-once 1] [--record FILE]
                                [-- ARGUMENTS OF doctor]

Exits 1 if a run ends with a code that is not documented, prints a traceback, prints nothing on
stdout, or takes longer than `--seconds`. The output of such runs is kept in a directory that is
named at the end. With --loops 0 the loops are somebody else's.

--record appends each run to a file of JSON lines as it ends. Started again with the same file, it
goes on until --runs are reached, and the table is that of all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
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
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("doctor", nargs="*", help="arguments of the doctor, after --")
    options = parser.parse_args()
    arguments = tuple(options.doctor) or CHEAPEST
    starts = recorded(options.record)
    missing = max(0, options.runs - len(starts))
    with busy_loops(options.loops), ThreadPoolExecutor(options.at_once) as pool:
        running = [pool.submit(start, arguments, options.seconds) for _ in range(missing)]
        for ended in as_completed(running):
            starts.append(each := ended.result())
            record(options.record, each)
            if each.problem or len(starts) % 50 == 0:
                print(f"{len(starts):>4}  {each.problem or 'ok'}", flush=True)
        load = busy()
    print(f"\ndoctor {' '.join(arguments)}: {len(starts)} runs, {options.loops} loops, {load}")
    print_table(starts)
    if problems := [each for each in starts if each.problem]:
        print(f"kept in {keep(problems)}")
        sys.exit(1)


def print_table(starts: list[Start]) -> None:
    """How often each exit code occurred, and the times of those runs."""
    print(f"{'exit':<6} {'runs':>5} {'median s':>9} {'longest s':>9}")
    by_code = sorted({str(each.code) for each in starts})
    for code in by_code:
        times = [each.seconds for each in starts if str(each.code) == code]
        median, longest = statistics.median(times), max(times)
        print(f"{code:<6} {len(times):>5} {median:>9.1f} {longest:>9.1f}")
    problems = Counter(each.problem for each in starts if each.problem)
    print(f"outside the documented set {DOCUMENTED}, or without a report: {problems.total()}")
    for problem, count in problems.most_common():
        print(f"  {problem}: {count}")


def recorded(file: Path | None) -> list[Start]:
    """The runs of earlier times. A line that was cut off is no run."""
    if file is None or not file.exists():
        return []
    lines = file.read_text("utf-8").splitlines()
    return [Start(**json.loads(line)) for line in lines if line.endswith("}")]


def record(file: Path | None, ended: Start) -> None:
    """Append a run; the output only of one that has a problem."""
    if file is None:
        return
    stored = ended if ended.problem else replace(ended, stdout="a report", stderr="")
    with file.open("a", encoding="utf-8") as stream:
        stream.write("\n" + json.dumps(asdict(stored)))


def keep(problems: list[Start]) -> Path:
    """The outputs as files."""
    directory = Path(tempfile.mkdtemp(prefix="doctor-starts-"))
    for number, each in enumerate(problems):
        text = f"{each.problem}\n{each.stdout}\n{each.stderr}"
        (directory / f"{number}.txt").write_text(text, "utf-8", "replace")
    return directory


if __name__ == "__main__":
    main()
