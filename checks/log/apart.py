"""What stands in a log beside its first cause and cannot follow from it: of another run."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.checks.log.story import CANCELLED, class_of
from doctor.facts.log import LogEvent

PORT, TIMEOUT = "port-in-use", "nccl-timeout"
"""A launcher without its port starts no rank, so that none waits in a collective."""


def split(others: Sequence[LogEvent], first: LogEvent) -> tuple[list[LogEvent], list[LogEvent]]:
    """The consequences of the first cause, and what is none."""
    waits = (each.line for each in others if each.name == TIMEOUT and each.path == first.path)
    started = min(waits, default=0) if first.name == PORT else 0

    def is_apart(event: LogEvent) -> bool:
        if event.path != first.path:
            return False
        above = first.name == CANCELLED and class_of(event).role == "exception"
        return (above and event.line < first.line) or 0 < first.line < started <= event.line

    return (
        [each for each in others if not is_apart(each)],
        [each for each in others if is_apart(each)],
    )
