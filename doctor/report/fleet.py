"""What a comparison of nodes adds to a report."""

from __future__ import annotations

from collections.abc import Iterator

from doctor._util.units import shown
from doctor.facts.fleet import Fleet

CLASSES = 4
"""Classes of hardware that the header names."""


def fleet_parts(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """How many nodes of which hardware."""
    if fleet.since:
        yield "machine", f"two files, the first of {shown(fleet.since)}"
        return
    count = len(fleet.nodes)
    expected = f" of {fleet.expected:,}" if fleet.expected is not None else ""
    yield "nodes", f"{count:,}{expected}"
    for each in fleet.classes[:CLASSES]:
        yield "class", f"{each.count:,} × ({shown(each.classed, 200)})"
    if len(fleet.classes) > CLASSES:
        yield "class", f"{len(fleet.classes) - CLASSES:,} more classes of hardware"
