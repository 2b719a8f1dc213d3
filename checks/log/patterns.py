"""The table as the reader of logs takes it."""

from __future__ import annotations

from doctor.checks.log.classes import CLASSES, HARMLESS
from doctor.log.patterns import LinePattern


def line_patterns() -> tuple[LinePattern, ...]:
    """Specific classes first, then a launcher's summaries, then harmless texts."""
    ordered = sorted(CLASSES, key=lambda row: row.role == "summary")
    return (
        *(LinePattern(row.slug, row.expression) for row in ordered if row.patterns),
        *(LinePattern(row.name, row.pattern, harmless=True) for row in HARMLESS),
    )
