"""Which nodes must be there: a number, names, or Slurm's lists of names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from doctor.facts.fleet import NodeSummary

MOST = 200_000
"""Names that a list may expand to."""
LONGEST = 4 * 2**20
"""Characters of a list."""
ITEM = re.compile(r"(?:\[[^\[\]]*\]|[^,\s\[\]])+")
PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
NAME = re.compile(r"\w[\w.-]{0,254}")


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be there; None and () where it is not stated."""

    count: int | None = None
    names: tuple[str, ...] = ()


NOT_STATED = Expected()


def parse_names(text: str) -> tuple[str, ...]:
    """Names of nodes, separated by commas, blanks or line ends; `#` begins a comment.

    "gpu-[01-16,20],login1" is read as Slurm writes it. Raises ValueError.
    """
    if len(text) > LONGEST:
        raise ValueError(f"a list of nodes of more than {LONGEST >> 20} MiB")
    lines = (line.partition("#")[0] for line in text.splitlines())
    items = [item for line in lines for item in _items(line)]
    expanded = tuple(itertools.islice(_expanded(items), MOST + 1))
    names = tuple(dict.fromkeys(expanded))
    if len(expanded) > MOST:
        raise ValueError(f"a list of more than {MOST:,} nodes")
    if not names:
        raise ValueError("no name of a node in it")
    return names


def _items(line: str) -> list[str]:
    items = ITEM.findall(line)
    if "".join(items) != re.sub(r"[,\s]", "", line) and _joined(items) != _joined([line]):
        raise ValueError(f"{line.strip()!r} is not a list of nodes such as gpu-[01-16],login1")
    return items


def _joined(texts: Iterable[str]) -> str:
    return re.sub(r"[,\s]", "", "".join(texts))


def _expanded(items: Iterable[str]) -> Iterator[str]:
    for item in items:
        parts = [_values(*match) for match in PART.findall(item)]
        for name in map("".join, itertools.product(*parts)):
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a node")
            yield name


def _values(ranges: str, plain: str) -> Sequence[str]:
    """The texts that a part of a name stands for."""
    if plain:
        return (plain,)
    values: list[str] = []
    for text in ranges.split(","):
        match = RANGE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"[{ranges}] is not a list of numbers such as [01-16,20]")
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) >= MOST or len(values) > MOST:
            raise ValueError(f"a list of more than {MOST:,} nodes")
        values += [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    if not values:
        raise ValueError(f"[{ranges}] is empty")
    return values


def missing(
    nodes: Sequence[NodeSummary], expected: Expected
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Names that are missing, ranks that are missing, and names that are not expected.

    A node counts under its launcher's name, its host's, and that without a domain. Ranks are
    those of a job whose nodes gave a rank; they are only used where no names are known.
    """
    known = {alias for node in nodes for alias in aliases(node)}
    absent = tuple(name for name in expected.names if name.partition(".")[0] not in known)
    listed = {name.partition(".")[0] for name in expected.names}
    others = [node.node for node in nodes if listed and not aliases(node) & listed]
    count = expected.count
    ranks = {node.rank for node in nodes if node.rank is not None}
    gone: tuple[int, ...] = ()
    if not expected.names and count is not None and ranks and len(nodes) < count:
        gone = tuple(sorted(set(range(min(count, MOST))) - ranks))
    return absent, gone, tuple(others)


def aliases(node: NodeSummary) -> frozenset[str]:
    """The names of a node without their domains."""
    return frozenset(name.partition(".")[0] for name in (node.node, node.host) if name)
