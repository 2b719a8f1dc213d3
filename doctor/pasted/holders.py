"""Programs that train nothing and hold a GPU's memory, beside a job that found too little of it.

The job itself has mostly ended when its user runs nvidia-smi or gpustat, so a program of another
kind in their tables is not the job's own. What is called python may be either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from doctor.facts.host import Reported
from doctor.pasted.smi_load import COMPUTES
from doctor.pasted.smi_table import memory_of

SHORT = re.compile(
    r"(?:^|[\s.])OutOfMemoryError: (?!Java)|CUDA error: out of memory|CUDA out of memory\. Tried to"
)
SHORT_OF = re.compile(r"\bGPU (\d{1,2}) has a total capacity|\(GPU (\d{1,2});")
"""The exception itself, not what a sentence says of one, and the GPU that it names."""
GPUSTAT = re.compile(r"\s*\[(\d{1,2})\] .{3,60}\|.{0,40}\|\s*\d{1,7} /\s*(\d{1,7}) MB \|(.{3,400})")
PROCESS = re.compile(r"[\w.-]{1,32}:([\w.+-]{1,60})/(\d{1,8})\((\d{1,7})M\)")
"""What `gpustat -cpu` prints: user, command, process, MiB."""
TRAINS = re.compile(
    r"python|ipykernel|jupyter|torch|pt_main|pt_data|\bray\b|ray::|vllm|sglang|deepspeed|accelerate|"
    r"axolotl|train|comfy|lm_eval|^uv$|^[\W_]{0,3}$|^N/A$|Not (?:Found|Available)|\.\.\.$",
    re.IGNORECASE,
)
"""Names that may be the job's: of an engine that generates for it, too; or no name."""
MUCH = 0.15
"""Share of the GPU's memory. Our own number: less is a desktop's or a monitor's."""


class Holder(NamedTuple):
    """A process of a table: GPU, number, name and MiB."""

    gpu: str
    process: str
    name: str
    mib: int


def read(lines: Sequence[str]) -> Iterator[Reported]:
    """The process that holds most, where one that trains nothing holds much."""
    if not any(map(SHORT.search, lines)):
        return
    totals = {number: total for number, _, total in memory_of(lines)}
    rows = [match for line in lines if (match := COMPUTES.match(line))]
    found = [Holder(each[1], each[2], each[3], int(each[4])) for each in rows]
    for line in lines:
        if match := GPUSTAT.match(line):
            totals[match[1]] = int(match[2])
            found += (Holder(match[1], number, name, int(mib))
                      for name, number, mib in PROCESS.findall(match[3]))  # fmt: skip
    named = {match[1] or match[2] for line in lines if (match := SHORT_OF.search(line))}
    found = [each for each in found if not named or each.gpu in named]
    foreign = [each for each in found if not _may_train(each.name)]
    others = [each for each in foreign if each.mib >= MUCH * totals.get(each.gpu, each.mib * 100)]
    if others:
        most = max(others, key=lambda each: each.mib)
        text = f"Process {most.process} holds {most.mib / 1024:.1f} GiB of GPU {most.gpu}"
        yield Reported(cause="gpu-held-by-others", line=f"{text}: {most.name.strip()}")


def _may_train(name: str) -> bool:
    """By the program's name; what runs from a directory of the user's is its own."""
    return name.startswith("./") or TRAINS.search(name.rpartition("/")[2]) is not None
