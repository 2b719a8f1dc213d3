"""Columns of files and tables: answers that all end at one length, and numbers that stand for
"missing".

Only counts, lengths and these numbers leave this module.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

from ..foreign import Foreign, containers
from .chats import ANSWERS, messages_of

MOST = 100_000
"""Values of a column that are kept."""
LEAST, SHARE = 5, 0.01
"""Rows, and share of the rows, that end at one length or have one number. Our own numbers."""
CROWDED = 3
"""Times the rows that end at the length next in number. Our own number."""
SHORTEST = {"characters": 64, "words": 12}
"""Shorter texts have few lengths to end at."""
FIXED, FINISHED = 0.6, 0.9
"""Share of rows of one length from which on all of them may have it on purpose, and of the shorter
ones that end with a sentence, where they do not. Our own numbers."""
ENDS = tuple(".!?…\"'”)]}>`:|\n。！？।۔؟」")
SENTENCE = re.compile(r"[.!?]\s+[A-Z]")
MISSING = re.compile(r"-?999+|-99|-32768|9\.9{2,}e\+\d+")
DECIMAL_COMMA = re.compile(r"[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+")
"""As in 1.234,5; a comma between thousands alone is read in this way, too."""
BLANKS = ("", "na", "n/a", "nan", "null", "none")
LEAST_NUMBERS, LEAST_DIFFERENT = 32, 5


class Columns:
    """Values over rows; `cuts` and `sentinels` are the records."""

    def __init__(self) -> None:
        self._lengths: Dict[Tuple[str, str], Counter[int]] = {}
        """Column and unit -> lengths of its texts."""
        self._open: Dict[Tuple[str, str], Counter[int]] = {}
        """Of these, the texts that end within a sentence."""
        self._prose: Dict[str, int] = {}
        """Texts of a column in which a sentence ends before their end."""
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
            self._prose[name] = self._prose.get(name, 0) + bool(SENTENCE.search(text))
            is_open = not text.rstrip(" ").endswith(ENDS)
            for unit, length in (("characters", len(text)), ("words", len(text.split()))):
                self._lengths.setdefault((name, unit), Counter())[length] += 1
                self._open.setdefault((name, unit), Counter())[length] += is_open

    def cuts(self) -> List[Dict[str, Any]]:
        found: Dict[str, Dict[str, Any]] = {}
        for (name, unit), lengths in self._lengths.items():
            longest, rows = max(lengths), sum(lengths.values())
            open_ = self._open[name, unit]
            if longest >= SHORTEST[unit] and ends_at(longest, lengths, open_, self._prose[name]):
                found.setdefault(name, {
                    "type": "Cut", "column": name[:60], "length": longest, "unit": unit,
                    "rows": lengths[longest], "of": rows,
                })  # fmt: skip
        return list(found.values())

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


def ends_at(longest: int, lengths: Counter[int], open_: Counter[int], prose: int) -> bool:
    """Whether many texts have the greatest length, most of them within a sentence; where most of
    all do, that others end with one, or that they hold whole sentences, shows that it is prose."""
    rows, at = sum(lengths.values()), lengths[longest]
    next_most = max((n for length, n in lengths.items() if length != longest), default=0)
    if at < max(LEAST, SHARE * rows, CROWDED * next_most) or 2 * open_[longest] <= at:
        return False
    shorter = rows - at
    finished = shorter - sum(open_.values()) + open_[longest]
    is_prose = finished >= max(LEAST, FINISHED * shorter) or 2 * prose > rows
    return at < FIXED * rows or is_prose


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
