"""Files of a program of one's own that each rank wrote: whether all are there, and of one save."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from doctor._util.units import listed, shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_files import read_tree
from doctor.checkpoint.io.files import Directory, LocalDirectory
from doctor.checkpoint.pickle.nodes import mapping
from doctor.checkpoint.records import Problem

RANK = re.compile(
    r"(?P<before>|.*[._-])(?P<word>rank|shard|dp|tp|mp|pp)[_-]?"
    r"(?P<number>\d{1,5})(?P<after>[._-].*)"
)
ENDS = (".pt", ".pth", ".ckpt", ".bin")
MOST = 64
"""Files that are read."""
WORLDS = ("world_size", "num_ranks", "n_ranks", "dp_world_size")
"""How a file names the number of all ranks."""


def rank_problems(directory: Directory) -> tuple[Problem, ...]:
    """What the files of the ranks say against each other, on this machine only."""
    if not isinstance(directory, LocalDirectory):
        return ()
    series: dict[tuple[str, ...], dict[int, str]] = {}
    for name in directory.names():
        match = RANK.fullmatch(name) if name.endswith(ENDS) else None
        if match:
            kind = (match["before"], match["word"], match["after"])
            series.setdefault(kind, {})[int(match["number"])] = name
    return tuple(
        problem
        for files in series.values()
        if 1 < len(files) <= MOST
        for problem in _of_series(directory, files)
    )


def _of_series(directory: LocalDirectory, files: dict[int, str]) -> Iterator[Problem]:
    steps: dict[int, list[str]] = {}
    first, world = min(1, min(files)), max(files) + 1
    for _, name in sorted(files.items())[:MOST]:
        with contextlib.suppress(CheckpointError), directory.open(name) as source:
            tree = read_tree(source, name)
            top = mapping(tree.value)
            if (step := tree.step()) is not None:
                steps.setdefault(step, []).append(name)
            named = (top.get(key) for key in WORLDS)
            world = max(world, *(first + n for n in named if type(n) is int and n <= 2**20), 0)
    absent = [number for number in range(first, world) if number not in files]
    if absent:
        which = listed([str(number) for number in absent], 4)
        text = f"is one of the files of {world - first:,} ranks, and number {which} is not there"
        yield Problem(kind="lost-rank", file=shown(min(files.values())), text=text)
    if len(steps) > 1:
        common = max(steps, key=lambda step: (len(steps[step]), step))
        other = min(step for step in steps if step != common)
        text = (
            f"is of step {other:,}, and {listed(steps[common], 4)} of step {common:,}: the ranks' "
            "files are of several saves"
        )
        yield Problem(kind="mixed", file=shown(steps[other][0]), text=text)
