"""The rows of the table of errors that are recognized in a log."""

from __future__ import annotations

from doctor.errors.causes import CAUSES

CLASSES = tuple(sorted((row for row in CAUSES if row.code), key=lambda row: row.code))
"""Each is a check; the first that matches a line counts."""
HARMLESS = tuple(row for row in CAUSES if row.role == "harmless")
"""Counted, and named once."""
CONDITIONS = {row.id: row for row in CAUSES if row.role == "condition" or row.explains}
"""They count where something that they explain has failed; those of no class are found like
harmless lines."""
BY_SLUG = {row.id: row for row in CLASSES}
BY_ID_OF_NO_CLASS = {
    row.id: row for row in CAUSES if not row.code and row.role == "cause" and not row.quotes
}
"""Rows that name a line where none of a class is in a short log."""
