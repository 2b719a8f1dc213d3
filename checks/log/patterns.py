"""The table as the reader of logs takes it."""

from __future__ import annotations

from doctor.checks.log.classes import CLASSES, HARMLESS
from doctor.log.patterns import LinePattern


def line_patterns() -> tuple[LinePattern, ...]:
    """Specific classes first, then a launcher's summaries, then harmless texts."""
    ordered = sorted(CLASSES, key=lambda row: row.role == "summary")
    return tuple(
        LinePattern(row.id, "|".join(row.messages), harmless=row.role == "harmless")
        for row in (*ordered, *HARMLESS)
        if row.messages
    )
