"""Columns of files and tables: answers that all end at one length, and numbers that stand for
"missing".

Only counts, lengths and these numbers leave this module.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, List, Optional

from ..foreign import Foreign, containers
from .chats import ANSWERS, messages_of

MOST = 100_000
"""Values of a column that are kept."""
LEAST, SHARE = 5, 0.01
"""Rows, and share of the rows, that end at one length or have one number. Our own numbers."""
CROWDED = 3
"""Times the rows that end at the length next in number. Our own number."""
SHORTEST = 64
"""Characters: shorter texts have few lengths to end at."""
FIXED = 0.6
"""Share of rows of one length from which on all of them have it on purpose."""
ENDS = tuple(".!?…\"'”)]}>`:|\n。！？।۔؟」")
MISSING = re.compile(r"-?999+|-99|-32768|9\.9{2,}e\+\d+")
DECIMAL_COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+")
"""As in 1.234,5; a comma between thousands alone is read in this way, too."""
BLANKS = ("", "na", "n/a", "nan", "null", "none")
LEAST_NUMBERS, LEAST_DIFFERENT = 32, 5


class Columns:
    """Values over rows; `cuts` and `sentinels` are the records."""

    def __init__(self) -> None:
        self._lengths: Dict[str, Counter[int]] = {}
        self._open: Dict[str, Counter[int]] = {}
        """Of these, the texts that end within a sentence."""
        self._numbers: Dict[str, Optional[Counter[float]]] = {}
        """None: a column that has something else, too."""

    def add(self, row: Foreign) -> None:
        for name, value in row.items():
            number = number_of(value)
            column = self._numbers.setdefault(str(name), Counter())
            if number is None and not is_blank(value):
                self._numbers[str(name)] = None
            elif number is not None and column is not None and len(column) < MOST:
                column[number] += 1
        for name, text in answers_of(row).items():
            self._lengths.setdefault(name, Counter())[len(text)] += 1
            if not text.rstrip(" ").endswith(ENDS):
                self._open.setdefault(name, Counter())[len(text)] += 1

    def cuts(self) -> List[Dict[str, Any]]:
        found = []
        for name, lengths in self._lengths.items():
            longest, rows = max(lengths), sum(lengths.values())
            at = lengths[longest]
            next_most = max((n for length, n in lengths.items() if length != longest), default=0)
            crowded = at >= max(LEAST, SHARE * rows, CROWDED * next_most)
            unfinished = self._open.get(name, Counter())[longest]
            if crowded and longest >= SHORTEST and at < FIXED * rows and 2 * unfinished > at:
                found.append(
                    {"type": "Cut", "column": name[:60], "length": longest, "rows": at, "of": rows}
                )
        return found

    def sentinels(self) -> List[Dict[str, Any]]:
        found = []
        for name, column in self._numbers.items():
            rows = sum(column.values()) if column else 0
            if not column or rows < LEAST_NUMBERS:
                continue
            codes = [n for n in column if MISSING.fullmatch("%.6g" % n)]
            rest = [n for n in column if n not in codes]
            if not codes or len(rest) < LEAST_DIFFERENT:
                continue
            low, high = min(rest), max(rest)
            for code in codes:
                far = code < low - (high - low) or code > high + (high - low)
                if far and column[code] >= max(LEAST, SHARE * rows):
                    found.append({
                        "type": "Sentinel", "column": name[:60], "value": code,
                        "rows": column[code], "of": rows,
                    })  # fmt: skip
        return found


def number_of(value: Foreign) -> Optional[float]:
    """A number, or a text that is one; None of anything else, of truth values and of NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip()):
        value = value.replace(".", "").replace(",", ".")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number == number else None


def is_blank(value: Foreign) -> bool:
    """Whether the place of a number is empty: None, NaN, or what tables write for it."""
    if isinstance(value, str):
        return value.strip().lower() in BLANKS
    return value is None or (isinstance(value, float) and value != value)


def answers_of(row: Foreign) -> Dict[str, str]:
    """What a model is trained to say: the answer of a pair, or all answers of a chat."""
    chat = messages_of(row)
    if chat is not None:
        said = [each.get("content") for each in chat if each.get("role") == "assistant"]
        last = said[-1] if said else None
        return {"the last message": last} if isinstance(last, str) else {}
    if not containers.is_mapping(row):
        return {}
    return {str(n): row[n] for n in ANSWERS if isinstance(row.get(n), str)}
