"""A file of weights that is read alone: of several, the adapter, the first, or the latest."""

from __future__ import annotations

import contextlib
import re

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_files import read_tree
from doctor.checkpoint.io.files import Directory, LocalDirectory
from doctor.checkpoint.layouts.file_names import ADAPTERS, ONE, TORCH
from doctor.checkpoint.layouts.layout import Layout
from doctor.checkpoint.layouts.rank_files import RANK
from doctor.checkpoint.records import Problem

MOST_COMPARED = 20
"""Files of one name but for its numbers whose steps are compared."""


def lone(directory: Directory, files: list[str], ends: str) -> Layout:
    """A file of another name; with several, the adapter or the first without a variant."""
    first = ("last", "ckpt", "model", "best")
    plain = sorted(
        files,
        key=lambda name: (
            name not in ADAPTERS,
            not name.startswith(first) if ends != ".safetensors" else False,
            name.count("."),
            name,
        ),
    )
    kind = "PEFT adapter" if plain[0] in ADAPTERS else ONE[ends]
    name, steps = _latest(directory, plain)
    note: tuple[Problem, ...] = ()
    if len(files) > 1:
        by_step = "" if steps is None else f", the latest of its name by its step, {steps:,}"
        text = (
            f"is the one of {len(files)} files that was read{by_step}; name another to examine it"
        )
        note = (
            Problem(kind="note", file=shown(name), text=text),
            *_emptied(directory, name, plain),
        )
    return Layout(directory, kind, (name,), problems=note)


def _latest(directory: Directory, names: list[str]) -> tuple[str, int | None]:
    """The first of these files, or one that differs in numbers or version and states more steps,
    such as last.ckpt and last-v1.ckpt. With its steps where they decide. Files of ranks belong
    together: none of them is the latest."""
    series = [name for name in names if _without_numbers(name) == _without_numbers(names[0])]
    local = isinstance(directory, LocalDirectory)
    comparable = names[0].endswith(TORCH) and not RANK.fullmatch(names[0])
    if not local or not comparable or not 1 < len(series) <= MOST_COMPARED:
        return names[0], None
    steps = {name: _steps(directory, name) for name in series}
    known = {name: number for name, number in steps.items() if number is not None}
    if steps[names[0]] is None or len({*known.values()}) < 2:
        return names[0], None
    latest = max(known, key=known.__getitem__)
    return latest, known[latest]


def _emptied(directory: Directory, name: str, names: list[str]) -> tuple[Problem, ...]:
    """A file without a byte that is later than this one by its numbers, as a save leaves that the
    disk had no room for."""
    later = [each for each in names if _without_numbers(each) == _without_numbers(name)
             and _numbers(each) > _numbers(name)]  # fmt: skip
    local = isinstance(directory, LocalDirectory)
    if not local or RANK.fullmatch(name) or len(later) > MOST_COMPARED:
        return ()
    for each in sorted(later, key=_numbers, reverse=True):
        with contextlib.suppress(CheckpointError), directory.open(each) as source:
            if not source.size:
                text = f"is empty; {shown(name)} is the last whole one that was found"
                return (Problem(kind="unfinished", file=shown(each), text=text),)
    return ()


def _numbers(name: str) -> list[int]:
    return [int(number[:18]) for number in re.findall(r"[0-9]+", name)]


def _without_numbers(name: str) -> str:
    stem, _, ends = name.rpartition(".")
    return f"{re.sub(r'[0-9]+', '', re.sub(r'-v[0-9]+$', '', stem))}.{ends}"


def _steps(directory: Directory, name: str) -> int | None:
    with contextlib.suppress(CheckpointError), directory.open(name) as source:
        return read_tree(source, name).step()
    return None
