"""Archives of Stable-Baselines3: a zip that stores the files of torch.save whole."""

from __future__ import annotations

from pathlib import Path

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_zip import LOCAL, ZIP, payload, read_entries
from doctor.checkpoint.io.files import LocalDirectory, Source
from doctor.checkpoint.layouts.layout import Layout
from doctor.checkpoint.records import Problem

KIND = "Stable-Baselines3 archive"
POLICY = "policy.pth"
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
            members = _members(source)
    except CheckpointError:
        return Layout(directory, KIND, (name,), problems=problems)  # its reader says what is wrong
    names = [each for each, *_ in members]
    if VERSION not in names:
        return None
    if POLICY not in names:
        text = f"holds no {POLICY}, which Stable-Baselines3 stores in each archive"
        lost = Problem(kind="damaged", file=shown(name), text=text)
        return Layout(directory, KIND, problems=(*problems, lost))
    inside = LocalDirectory(Path(directory.path, name), tuple(members))
    others = tuple(each for each in names if each.endswith(".pth") and each != POLICY)
    return Layout(inside, KIND, (POLICY,), problems=problems, pickles=others)


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


def _members(source: Source) -> list[tuple[str, int, int]]:
    """The files that are stored uncompressed. Raises CheckpointError."""
    stored = [(name, record) for name, record in read_entries(source) if not record.method]
    return [(name, payload(source, record), record.packed) for name, record in stored]


def _rank(name: str) -> tuple[bool, str]:
    return not name.startswith(("best", "final", "last")), name
