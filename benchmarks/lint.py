"""Speed and memory of `doctor lint`, as ratios within one run.

    python benchmarks/lint.py [DIRECTORY of Python files; default: the installed transformers]

Targets: one file of 500 lines <= 1.6x `import typer, rich.console`; a tree <= 2.5x `ast.parse` of
the same files in one process, two processes >= 1.7x as fast as one; <= 150 MiB above the start.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

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
    from doctor.cli.lint import LintOptions, run_lint

    files = sorted(directory.rglob("*.py"))
    sources = [path.read_bytes() for path in files]
    gc.disable()
    warnings.simplefilter("ignore")
    began = time.process_time()
    for source in sources:
        ast.parse(source)
    parse = time.process_time() - began
    gc.enable()
    del sources
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    paths = tuple(map(str, files))
    began, wall = time.process_time(), time.monotonic()
    run_lint(LintOptions(paths=paths, processes=1))
    one, one_wall = time.process_time() - began, time.monotonic() - wall
    above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024
    print(
        f"{len(files)} files: {one:.1f} s, ast.parse {parse:.1f} s, ratio {one / parse:.2f} (2.5)"
    )
    wall = time.monotonic()
    run_lint(LintOptions(paths=paths, processes=2))
    print(f"two processes: {one_wall / (time.monotonic() - wall):.2f}x as fast (target 1.7)")
    print(f"memory: {above:.0f} MiB above ast.parse's (target 150)")


def main() -> None:
    named = sys.argv[1:]
    spec = importlib.util.find_spec("transformers") if not named else None
    one_file()
    tree(Path(named[0]) if named else Path(str(spec and spec.origin)).parent)


if __name__ == "__main__":
    main()
