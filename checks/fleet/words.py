"""How findings name nodes and values."""

from __future__ import annotations

from collections.abc import Sequence

from doctor._util.units import counted, listed, shown
from doctor.facts.fleet import Difference, Group

MOST_NAMES = 8
"""Nodes that a summary names; the table of the report has all."""
VALUE = 60
"""Characters of a value."""


def nodes(names: Sequence[str]) -> str:
    """ "gpu-01, gpu-02 and 14 more"."""
    return listed([shown(name, 80) for name in names], MOST_NAMES)


def difference(each: Difference, since: str = "") -> str:
    """ "driver: 61 nodes have 580.95.05, gpu-17 has 570.86.10".

    `since`: of two times of one machine the first, "driver: 580.95.05 before, 570.86.10 now".
    """
    first, *others = each.groups
    if since and len(others) == 1:
        old, new = (others[0], first) if since in others[0].nodes else (first, others[0])
        detail = f" ({shown(each.detail, 300)})" if each.detail else ""
        return f"{shown(each.name)}: {value(old)} before, {value(new)} now{detail}"
    parts = [f"{counted(first.count, 'node')} {_have(first.count)} {value(first)}"]
    parts += [f"{nodes(group.nodes)} {_have(group.count)} {value(group)}" for group in others[:3]]
    if len(others) > 3:
        parts.append(f"{len(others) - 3} more values")
    detail = f" ({shown(each.detail, 300)})" if each.detail else ""
    return f"{shown(each.name)}: {', '.join(parts)}{detail}"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def value(group: Group) -> str:
    """The value of a group as a report prints it."""
    return shown(group.value, VALUE) if group.value else "none set"
