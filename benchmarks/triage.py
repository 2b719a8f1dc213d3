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

SENTENCE = (
    "the model learns to answer questions about data and writes what it reads in long sentences, "
    "because every token of a batch counts while loaders wait for nodes that are slower than others"
)
ERROR = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"


def lines(size: int, seed: int = 0) -> Iterator[str]:
    """The log of a healthy training with 8 ranks on two nodes, about as many bytes.

    Of its bytes, a quarter are tqdm bars with carriage returns, a sixth are metrics (the
    Trainer's rows, Megatron's), a quarter are messages of ranks with times, a fifth are NCCL's,
    and the rest are printed samples of text and warnings.
    """
    chance, written, step = random.Random(seed), 0, 0
    while written < size:
        step += 1
        text = "".join(_step(step, chance))
        written += len(text.encode())
        yield text


def _step(step: int, chance: random.Random) -> Iterator[str]:
    clock = f"2026-11-{1 + step // 86400 % 28:02d} {step // 3600 % 24:02d}:{step // 60 % 60:02d}"
    clock += f":{step % 60:02d},{chance.randrange(1000):03d}"
    done = step % 1000
    bar = "█" * (done // 100) + " " * (10 - done // 100)
    yield f"\r {done // 10:3d}%|{bar}| {step}/900000 [{step // 3600:02d}:{step % 60:02d}<11:22:33,"
    yield "  1.93it/s]\n" if step % 2 == 0 else "  1.93it/s]"
    if step % 4 == 0:
        loss, norm = 2 + chance.random(), chance.random()
        yield f"{{'loss': {loss:.4f}, 'grad_norm': {norm:.6f}, 'learning_rate': 9.98e-06, "
        yield f"'epoch': {step / 9000:.2f}}}\n"
    if step % 10 == 0:
        yield f" [{clock[:19]}] iteration {step:8d}/  900000 | consumed samples: {step * 512:12d}"
        yield f" | elapsed time per iteration (ms): {900 + 99 * chance.random():.1f} | learning "
        yield f"rate: 9.981E-06 | global batch size:   512 | lm loss: {2 + chance.random():.6E} | "
        yield f"loss scale: 1.0 | grad norm: {chance.random():.3f} | number of skipped "
        yield "iterations:   0 |\n"
    rank = chance.randrange(8)
    if step % 2 == 0:
        yield f"[rank{rank}]: {clock} INFO [trainer.py:{chance.randrange(900)}] data loader: "
        yield f"{chance.random():.3f} s, shard-{chance.randrange(10**6):06d}.tar of 12000, "
        yield f"memory {chance.random() * 80:.2f} GB\n"
    if step % 2 == 0:
        yield f"node-{rank // 4:03d}:{40000 + rank}:{50000 + rank} [{rank % 4}] NCCL INFO Channel "
        yield f"{step % 16:02d}/0 : {rank}[{rank}] -> {(rank + 1) % 8}[{(rank + 1) % 8}] via "
        yield f"P2P/CUMEM comm 0x{chance.getrandbits(48):012x}\n"
    if step % 10 == 0:
        yield f"sample: {' '.join(chance.choices(SENTENCE.split(), k=30))}.\n"
    if step % 100 == 0:
        yield "/opt/env/lib/python3.11/site-packages/torch/utils/checkpoint.py:87: UserWarning: "
        yield "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly.\n"
        yield "  warnings.warn(\n"


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
