"""Comments that accept findings: `# doctor: ignore[SCR104] reason`, `# noqa: SCR104 reason`.

A noqa that names no code of ours is for other tools.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from doctor.facts.script import Span, Suppression
from doctor.script.text import Source

if TYPE_CHECKING:
    import tokenize

DOCTOR = re.compile(r"#\s*doctor:\s*ignore\s*\[([^\]]*)\][ \t:,-]*(.*)", re.IGNORECASE)
NOQA = re.compile(r"#\s*noqa\s*:\s*([A-Z]{1,5}\d+(?:[\s,]+[A-Z]{1,5}\d+)*)[ \t:,-]*(.*)", re.I)
OWN = "SCR"
HINT = re.compile(rf"#\s*(?:doctor:|noqa\s*:[^\n]*\b{OWN}\d)", re.IGNORECASE)


def read(source: Source) -> tuple[Suppression, ...]:
    """All suppressions, by line; those within strings are no comments."""
    folded = source.text.casefold()  # quicker than the expression, which most files do not need
    if not (("doctor:" in folded or "noqa" in folded) and HINT.search(source.text)):
        return ()
    import tokenize  # takes longer than reading most files

    results = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type == tokenize.COMMENT:
                results += _of(token, source)
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass
    return tuple(results)


def _of(token: tokenize.TokenInfo, source: Source) -> list[Suppression]:
    line, offset = token.start
    cell, first = source.cells[line - 1] if source.cells else (0, line)
    if match := DOCTOR.search(token.string):
        codes = tuple(re.split(r"[\s,]+", match[1].strip().upper())) if match[1].strip() else ()
        span = Span(first, offset + match.start() + 1, first, offset + match.end() + 1, cell)
        return [Suppression(codes, match[2].strip(), first, "doctor", span)]
    if match := NOQA.search(token.string):
        named = re.split(r"[\s,]+", match[1].upper())
        codes = tuple(code for code in named if code.startswith(OWN))
        span = Span(first, offset + match.start() + 1, first, offset + match.end() + 1, cell)
        return [Suppression(codes, match[2].strip(), first, "noqa", span)] if codes else []
    return []
