"""The rank of a file, from its name and those of its neighbours."""

from __future__ import annotations

import re
from collections.abc import Sequence

NAMED = re.compile(
    r"(?:^|[^A-Za-z])(?:rank|local_rank|proc|process|worker|task)[-_]?(\d{1,6})(?!\d)",
    re.IGNORECASE,
)
TORCHRUN = re.compile(r"/(?:attempt_\d+/)?(\d{1,6})/(?:stdout|stderr|std)\.log")
NUMBER = re.compile(r"\d{1,9}")
OF_RUNS = re.compile(
    r"(?:^|[^A-Za-z])(?:run|exp|experiment|trial|seed|fold|version|try)[-_]?$", re.IGNORECASE
)
"""What stands before the number of a run, which is no rank."""


def ranks_of(paths: Sequence[str]) -> dict[str, int]:
    """Path -> rank, where the names give one."""
    ranks = {path: rank for path in paths if (rank := _named(path)) is not None}
    if ranks or len(paths) < 2:
        return ranks
    return _by_position(paths)


def _named(path: str) -> int | None:
    match = TORCHRUN.search(path) or NAMED.search(path.rpartition("/")[2])
    return int(match[1]) if match else None


def _by_position(paths: Sequence[str]) -> dict[str, int]:
    """The one number in which the names differ, as in slurm-1234-0.out, slurm-1234-1.out."""
    names = [path.rpartition("/")[2] for path in paths]
    if len({NUMBER.sub("#", name) for name in names}) != 1:
        return {}
    places = [match.start() for match in NUMBER.finditer(names[0])]
    columns = list(zip(*(map(int, NUMBER.findall(name)) for name in names), strict=True))
    for place, column in reversed(list(zip(places, columns, strict=True))):
        if OF_RUNS.search(names[0][:place]):
            continue
        if len(set(column)) == len(paths) and set(column) == set(range(len(paths))):
            return dict(zip(paths, column, strict=True))
    return {}
