"""`doctor explain` for one line: the rows of the table of errors, without the reader of logs.

That one, and the checks of logs, take four times as long to import as this answer.
"""

from __future__ import annotations

import re

from doctor.errors.fitted import fitted
from doctor.errors.match import with_message
from doctor.report.causes import proposed

METRIC = re.compile(r"(?:loss|grad_norm)\W.*?\d|\b(?:nan|inf)\b", re.IGNORECASE)
"""What a line with metrics contains: those are judged as the curves of a log."""
SHORT = 60
"""Characters of a text that may be a part of a message only. Our own number."""
WHOLE = ("harmless", "symptom")
"""Roles of rows whose expressions are no parts of messages."""
COMPLETE = re.compile(r"[\w.]{3,80}: \S")
"""The class of an exception, and a message."""


def explain_line(text: str) -> str:
    """The causes of a message of one line and the harmless texts in it; "" where there are
    none, and for what is read with more care: several lines, metrics, a part of a message."""
    line = text.strip()
    if "\n" in line:
        return ""
    rows = with_message(line, symptoms=True)
    if METRIC.search(line) and not (rows and rows[0].words):
        return ""
    if not any(row.code or row.role in WHOLE for row in rows) and _is_part(line):
        return ""
    causes = tuple(fitted(row, line) for row in rows if row.fix)
    harmless = [f"harmless ({row.id}): {row.why}" for row in rows if row.role == "harmless"]
    return "\n\n".join([*([proposed(line, causes)] if causes else []), *harmless])


def _is_part(line: str) -> bool:
    return len(line) <= SHORT and not COMPLETE.match(line)
