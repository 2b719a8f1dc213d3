"""Speed of `doctor triage` and of `doctor explain TEXT`, as ratios within one run.

python benchmarks/triage.py [MEGABYTES] [GIGABYTES_OF_THE_STREAM]
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from turns import against, busy, memory

from doctor.checks.log.classes import CLASSES
from doctor.checks.log.patterns import line_patterns
from doctor.log.read import read_logs

WORDS = ("the", "model", "learns", "to", "answer", "questions", "about", "data", "and", "writes")
ERROR = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"


def lines(size: int, seed: int = 0) -> Iterator[str]:
    """A training's log: progress bars, the Trainer's rows, messages of ranks, Megatron's rows."""
    chance, written, step = random.Random(seed), 0, 0
    while written < size:
        step += 1
        bar = "█" * (step % 40) + " " * (40 - step % 40)
        text = (
            f"\r {step % 100:3d}%|{bar}| {step}/900000 [{step // 3600:02d}:{step % 60:02d}<11:22]"
        )
        if step % 5 == 0:
            loss, norm = 2 + chance.random(), chance.random()
            text += f"\n{{'loss': {loss:.4f}, 'grad_norm': {norm:.6f}, 'learning_rate': 1e-05}}\n"
        if step % 20 == 0:
            words = " ".join(chance.choices(WORDS, k=4))
            text += f"[rank{step % 8}]: 2026-11-20 12:{step % 60:02d}:07,113 INFO train: {words}\n"
        if step % 50 == 0:
            text += (
                f" iteration {step}/ 900000 | lm loss: {chance.random():.6E} | grad norm: 0.3 |\n"
            )
        written += len(text.encode())
        yield text


def seconds(call: Callable[[], object], turns: int = 3) -> float:
    """Processor time of this process and its children, the best of several turns."""
    took = []
    for _ in range(turns):
        began = sum(os.times()[:4])
        call()
        took.append(sum(os.times()[:4]) - began)
    return min(took)


def extended(expression: str) -> str:
    """A pattern as grep -E takes it: without names, look-ahead and the bounds of repetitions."""
    for python, posix in (
        (r"\(\?P<\w+>|\(\?:", "("), (r"\(\?[!=<]+[^)]*\)", ""), (r"\{0,\d+\}", "*"),
        (r"\{[1-9],\d+\}", "+"), (r"\[\\w([^\]]*)\]", r"[[:alnum:]_\1]"),
        (r"\[\\d([^\]]*)\]", r"[0-9\1]"), (r"\\d", "[0-9]"), (r"\\w", "[[:alnum:]_]"),
        (r"\\s", "[[:space:]]"), (r"\\S", "[^[:space:]]"),
    ):  # fmt: skip
        expression = re.sub(python, posix, expression)
    return expression


def against_grep(path: Path) -> None:
    patterns = line_patterns()
    own = seconds(lambda: read_logs([str(path)], patterns))
    size = path.stat().st_size / 1e6
    print(f"triage of {size:.0f} MB: {own:.2f} s, {size / own:.0f} MB/s, one process")
    options = [f"-e{extended(pattern.expression)}" for pattern in patterns]
    command = ["grep", "-c", "-E", *options, str(path)]
    ratio = own / seconds(lambda: subprocess.run(command, capture_output=True, check=False))
    print(f"  / grep -c -E with the same {len(patterns)}: {ratio:.2f}, {against(3.0, ratio)}")


def ranks(directory: Path, size: int) -> None:
    """64 logs of ranks, and the same bytes in one file."""
    whole = directory / "whole.log"
    paths = [directory / f"rank_{rank}.log" for rank in range(64)]
    with whole.open("w", encoding="utf-8", newline="") as one:
        for rank, path in enumerate(paths):
            text = "".join(lines(size // 64, rank)) + "\n"
            path.write_text(text, "utf-8", newline="")
            one.write(text)
    patterns = line_patterns()
    apart = seconds(lambda: read_logs([str(path) for path in paths], patterns))
    together = seconds(lambda: read_logs([str(whole)], patterns))
    ratio = apart / together
    print(f"64 rank logs, {size / 1e6:.0f} MB / one file: {ratio:.2f}, {against(1.1, ratio)}")


STREAM = """
import sys
sys.path.insert(0, "benchmarks")
from triage import lines
from doctor.checks.log.patterns import line_patterns
from doctor.log.patterns import Gate
from doctor.log.read import read_stream
block = "".join(lines(8 << 20)).encode() + b"\\n"
class Endless:
    left = int(float(sys.argv[1]) * 1e9)
    def read(self, size=-1):
        self.left -= size
        return block[:size] if self.left > 0 else b""
gate = Gate(line_patterns())
mark()
read_stream("stream", Endless(), gate)
"""


def explain() -> None:
    command = [sys.executable, "-m", "doctor", "explain", ERROR]
    imports = [sys.executable, "-c", "import typer, rich.console"]
    run = subprocess.run
    own = seconds(lambda: run(command, capture_output=True, check=True), 9)
    bare = seconds(lambda: run(imports, capture_output=True, check=True), 9)
    print(
        f"explain TEXT / import typer, rich.console: {own / bare:.2f}, {against(1.6, own / bare)}"
    )


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    gigabytes = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    print(busy(), f"- {len(CLASSES)} classes")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        log = directory / "train.log"
        with log.open("w", encoding="utf-8", newline="") as file:
            file.writelines(lines(megabytes * 10**6))
        against_grep(log)
        log.unlink()
        ranks(directory, megabytes * 10**6 * 64 // 100)
    explain()
    more = memory(STREAM, str(gigabytes))
    print(f"memory at {gigabytes:g} GB: {more:.0f} MB over the start, {against(100, more)}")


if __name__ == "__main__":
    main()
