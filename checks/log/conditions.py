"""Settings and warnings of a log that say why something failed: harmless where nothing did."""

from __future__ import annotations

from collections.abc import Collection

from doctor.checks.log.classes import CONDITIONS
from doctor.errors.cause import Cause
from doctor.errors.fitted import fitted
from doctor.facts.log import Log, LogEvent
from doctor.judge.place import Place

MOST = 3
"""Reasons that a finding names."""
ABOUT = "about"
"""Group of a condition that names what the failure names: it counts wherever it stands."""
Reason = tuple[Cause, LogEvent]


def reasons_of(log: Log, ids: Collection[str], path: str, line: int) -> list[Reason]:
    """What explains a failure of these rows or checks at a line: conditions before it, in the order
    of the table."""
    found = {
        event.name: event
        for event in reversed((*log.events, *log.harmless))
        if event.name in CONDITIONS
        and (event.path != path or event.line <= line or not line or ABOUT in event.groups)
        and not (CONDITIONS[event.name].passing and event.recovered)
    }
    rows = (row for id, row in CONDITIONS.items() if id in found)
    return [(row, found[row.id]) for row in rows if not row_is_other(row, ids)][:MOST]


def row_is_other(row: Cause, ids: Collection[str]) -> bool:
    """Whether a condition is the reason of none of these."""
    return not set(row.explains) & set(ids)


def named(reasons: list[Reason]) -> str:
    """ "(bridge-chosen) ", before what a summary says."""
    return f"({', '.join(row.id for row, _ in reasons)}) " if reasons else ""


def fix_of(reasons: list[Reason]) -> str:
    return " ".join(dict.fromkeys(fitted(row, event.text).fix for row, event in reasons))


def places_of(reasons: list[Reason]) -> tuple[Place, ...]:
    return tuple(
        Place(path=event.path, line=event.line, rank=event.rank, text=event.text, message=row.id)
        for row, event in reasons
    )
