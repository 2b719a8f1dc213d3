"""The table as the reader of logs takes it."""

from __future__ import annotations

from doctor.checks.log.classes import CLASSES, CONDITIONS, HARMLESS
from doctor.log.patterns import LinePattern


def line_patterns() -> tuple[LinePattern, ...]:
    """Specific classes first, then a launcher's summaries, conditions, and harmless texts."""
    ordered = sorted(CLASSES, key=lambda row: row.role == "summary")
    return tuple(
        LinePattern(row.id, "|".join(row.messages), harmless=not row.code)
        for row in dict.fromkeys((*ordered, *CONDITIONS.values(), *HARMLESS))
        if row.messages
    )
