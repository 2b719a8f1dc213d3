"""Archives of Stable-Baselines3: a zip that stores the files of torch.save whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_zip import LOCAL, ZIP, Record, payload, read_entries
from doctor.checkpoint.io.files import LocalDirectory, Source
from doctor.checkpoint.layouts.layout import Layout
from doctor.checkpoint.records import Problem

KIND = "Stable-Baselines3 archive"
POLICY = "policy.pth"
SAVED, STATE = ".pth", "optimizer.pth"
"""Ends of the names of what torch.save wrote, and of the optimizers' states among it."""
VERSION = "_stable_baselines3_version"
FIRST = frozenset({"data", POLICY, "pytorch_variables.pth", "policy.optimizer.pth", VERSION})
"""What such an archive can begin with."""

OBJECTS = (
    "holds objects that Stable-Baselines3 unpickles when it loads the archive, which runs what "
    "they call: load those of sources that you trust"
)
MOST = 100
"""Archives of a directory that are looked at."""


def archived(directory: LocalDirectory, names: list[str]) -> Layout | None:
    """The policy of an archive of the directory, the best one of several; None without one."""
    zips = [name for name in names if name.endswith(".zip")][:MOST]
    found = sorted(filter(lambda name: _begins(directory, name), zips), key=_rank)
    if not found:
        return None
    note: tuple[Problem, ...] = ()
    if len(found) > 1:
        text = f"is the one of {len(found)} archives that was read; name another to examine it"
        note = (Problem(kind="note", file=shown(found[0]), text=text),)
    return archive(directory, found[0], note)


def archive(
    directory: LocalDirectory, name: str, problems: tuple[Problem, ...] = ()
) -> Layout | None:
    """The policy in one archive; None for a zip of other content."""
    if not _begins(directory, name):
        return None
    try:
        with directory.open(name) as source:
            entries = read_entries(source)
            names = [each for each, _ in entries]
            if VERSION not in names:
                return None
            if problem := _problem(name, entries):
                return Layout(directory, KIND, (name,), problems=(*problems, problem))
            members = _members(source, entries)
    except CheckpointError:
        return Layout(directory, KIND, (name,), problems=problems)  # its reader says what is wrong
    inside = LocalDirectory(Path(directory.path, name), members)
    others = tuple(each for each in names if each.endswith(SAVED) and each != POLICY)
    states = tuple(each for each in others if each.endswith(STATE))
    return Layout(inside, KIND, (POLICY,), problems=problems, states=states, pickles=others)


def _problem(name: str, entries: Sequence[tuple[str, Record]]) -> Problem | None:
    """Why the archive is not read by its entries; its pickles are listed all the same."""
    names = [each for each, _ in entries]
    twice = next((each for each, number in Counter(names).items() if number > 1), None)
    saved = [(each, record) for each, record in entries if each.endswith(SAVED)]
    sizes = next((n for n, each in saved if not each.method and each.size != each.packed), None)
    packed = next((each for each, record in saved if record.method or record.flags & 1), None)
    if twice is not None:
        text = f"holds {names.count(twice):,} entries named {shown(twice)}; Python reads the last"
    elif POLICY not in names:
        text = f"holds no {POLICY}, which Stable-Baselines3 stores in each archive"
    elif sizes is not None:
        text = f"describes {shown(sizes)} with two sizes"
    elif packed is not None:
        text = f"holds a compressed {shown(packed)}, whose values were not read"
        return Problem(kind="not-inspectable", file=shown(name), text=text)
    else:
        return None
    return Problem(kind="damaged", file=shown(name), text=text)


def _begins(directory: LocalDirectory, name: str) -> bool:
    """Whether a file begins as such an archive, by the first name in it."""
    try:
        with directory.open(name) as source:
            first = source.read(LOCAL.size + max(map(len, FIRST)), 0)
    except CheckpointError:
        return False
    if len(first) < LOCAL.size or not first.startswith(ZIP):
        return False
    length = LOCAL.unpack_from(first)[-2]
    return first[LOCAL.size : LOCAL.size + length] in {each.encode() for each in FIRST}


def _members(
    source: Source, entries: Sequence[tuple[str, Record]]
) -> tuple[tuple[str, int, int], ...]:
    """The files that are stored uncompressed. Raises CheckpointError."""
    stored = [(name, record) for name, record in entries if not record.method]
    return tuple((name, payload(source, record), record.packed) for name, record in stored)


def _rank(name: str) -> tuple[bool, str]:
    return not name.startswith(("best", "final", "last")), name
