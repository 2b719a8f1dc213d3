"""Speed and memory of `doctor lint`, as ratios within one run.

    python benchmarks/lint.py [DIRECTORY of Python files; default: the installed transformers]

Targets: one file of 500 lines <= 1.6x `import typer, rich.console`; a tree <= 2.5x `ast.parse` of
the same files in one process, two processes >= 1.7x as fast as one; <= 150 MiB above the start.

The clock tells the speed of two processes only where two cores are idle. By CPU time the speed-up
is that of one process over the busiest worker plus the parent, which works while no worker does.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

REPEATS = 7


def command(*words: str) -> float:
    """The least CPU seconds of a command."""
    best = float("inf")
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def one_file() -> None:
    with tempfile.TemporaryDirectory() as directory:
        loop = "\n".join(f"def f{n}(x, y):\n    z = x + y * {n}\n    return z" for n in range(165))
        script = Path(directory, "train.py")
        script.write_text(f"import torch\n{loop}\nfor x in d:\n    model(x).backward()\n")
        lint = command("-m", "doctor", "lint", str(script), "--no-config")
        base = command("-c", "import typer, rich.console")
    print(f"one file: {lint:.3f} s, base {base:.3f} s, ratio {lint / base:.2f} (target 1.6)")


def tree(directory: Path) -> None:
    files = sorted(directory.rglob("*.py"))
    parse = _parse_seconds(files)
    one, two = _run(directory, 1), _run(directory, 2)
    print(
        f"{len(files)} files: {one.cpu:.1f} s, ast.parse {parse:.1f} s, "
        f"ratio {one.cpu / parse:.2f} (target 2.5)"
    )
    busiest, serial = max(two.workers), two.cpu - sum(two.workers)
    print(
        f"two processes: {one.wall / two.wall:.2f}x as fast by the clock (target 1.7), "
        f"{one.cpu / (busiest + serial):.2f}x by CPU time: workers "
        f"{' and '.join(f'{each:.2f}' for each in two.workers)} s, the parent {serial:.2f} s"
    )
    print(f"memory: {one.memory:.0f} MiB above the start (target 150)")


def _parse_seconds(files: list[Path]) -> float:
    """CPU seconds of ast.parse; the collector would only walk the trees."""
    sources = [path.read_bytes() for path in files]
    gc.disable()
    warnings.simplefilter("ignore")
    began = time.process_time()
    for source in sources:
        ast.parse(source)
    seconds = time.process_time() - began
    gc.enable()
    return seconds


class Run(NamedTuple):
    """One lint in a fresh process: seconds, CPU seconds in all and of each worker, MiB."""

    wall: float
    cpu: float
    workers: list[float]
    memory: float


def _run(directory: Path, processes: int) -> Run:
    answer = subprocess.run(
        [sys.executable, __file__, "--worker", str(processes), str(directory)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return Run(*json.loads(answer.stdout))


def worker(processes: int, directory: str) -> None:
    """Lint a tree and print the figures of a `Run`; workers leave their CPU time in files."""
    from doctor.cli.lint import linter, run

    with tempfile.TemporaryDirectory() as notes:
        chunk = linter._chunk

        @functools.wraps(chunk)
        def timed(paths: Sequence[str]) -> list[Any]:
            hits = chunk(paths)
            Path(notes, str(os.getpid())).write_text(str(time.process_time()))
            return hits

        linter._chunk = timed
        start, wall = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
        run.run_lint(run.LintOptions(paths=(directory,), processes=processes))
        wall = time.monotonic() - wall
        workers = sorted(float(path.read_text()) for path in Path(notes).iterdir())
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(each.ru_utime + each.ru_stime for each in used)
    print(json.dumps([wall, cpu, workers, (used[0].ru_maxrss - start) / 1024]))


def main() -> None:
    named = sys.argv[1:]
    if named[:1] == ["--worker"]:
        worker(int(named[1]), named[2])
        return
    spec = importlib.util.find_spec("transformers") if not named else None
    one_file()
    tree(Path(named[0]) if named else Path(str(spec and spec.origin)).parent)


if __name__ == "__main__":
    main()
