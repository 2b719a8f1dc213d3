"""Places in the texts of rows: answers at an offset, entities from a letter to another, tags for
each
token.

Only counts and numbers of rows leave this module.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..foreign import Foreign, containers
from .relations import Relations

TEXTS = ("text", "context", "content", "sentence", "passage", "document")
SPANS = ("entities", "spans", "annotations", "label", "labels", "ents")
WORDS, TAGS = ("tokens", "words"), ("ner_tags", "tags", "pos_tags", "labels", "ner", "chunk_tags",
                                    "bio", "bio_tags", "tag")  # fmt: skip
SURFACES = ("text", "word", "surface", "value", "mention", "span_text")
STARTS, ENDS = ("start", "start_offset", "begin", "start_char", "offset"), (
    "end", "end_offset", "stop", "end_char")  # fmt: skip


class RowSpans:
    """Counts over rows; `records` has them."""

    def __init__(self) -> None:
        self._relations = Relations()

    def add(self, row: Dict[str, Any], number: int) -> None:
        text = next((row[n] for n in TEXTS if isinstance(row.get(n), str)), None)
        if text:
            for found in answers_of(row):
                self._relations.count("answer elsewhere", not stands(text, *found), number)
            spans = spans_of(row)
            if spans:
                count = self._relations.count
                outside = (a < 0 or b > len(text) or a >= b for a, b, _ in spans)
                count("span beyond text", any(outside), number)
                count("span cuts words", any(cuts(text, *each) for each in spans), number)
        words, tags = list_in(row, WORDS), list_in(row, TAGS)
        if words and tags is not None and isinstance(words[0], str):
            self._relations.count("tags of other tokens", len(words) != len(tags), number)

    def records(self) -> List[Dict[str, Any]]:
        return self._relations.records()


def list_in(row: Dict[str, Any], names: Tuple[str, ...]) -> Optional[List[Any]]:
    """A list of plain values."""
    value = next((row[name] for name in names if isinstance(row.get(name), list)), None)
    plain = value is not None and all(isinstance(each, (int, str)) for each in value)
    return value if plain else None


def answers_of(row: Dict[str, Any]) -> Iterator[Tuple[str, int]]:
    """Answers and where they begin, as SQuAD has them, or in columns of their own."""
    value: Foreign = row.get("answers", row.get("answer"))
    start: Foreign = row.get("answer_start", row.get("start_char"))
    if containers.is_mapping(value):
        start = value.get("answer_start", value.get("start"))
        value = value.get("text")
    texts = value if isinstance(value, list) else [value]
    starts = start if isinstance(start, list) else [start]
    for each, at in zip(texts, starts):
        if isinstance(each, str) and each and isinstance(at, int) and at >= 0:
            yield each, at


def stands(text: str, answer: str, at: int) -> bool:
    return text[at : at + len(answer)].strip().lower() == answer.strip().lower()


def spans_of(row: Dict[str, Any]) -> List[Tuple[int, int, str]]:
    """Start, end and, where it is given, the text of each entity."""
    value: List[Any] = next((row[n] for n in SPANS if isinstance(row.get(n), list)), [])
    found = []
    for each in value:
        start = end = None
        surface: Foreign = ""
        if containers.is_mapping(each):
            start = next((each[n] for n in STARTS if n in each), None)
            end = next((each[n] for n in ENDS if n in each), None)
            surface = next((each[n] for n in SURFACES if isinstance(each.get(n), str)), "")
        elif isinstance(each, (list, tuple)) and len(each) == 3:
            start, end = each[:2]
        if type(start) is not int or type(end) is not int:
            return []
        found.append((start, end, surface))
    return found


def cuts(text: str, start: int, end: int, surface: str) -> bool:
    """Whether a span has other letters than it says, or begins or ends within a word of letters
    that
    stand between spaces, or with a space."""
    part = text[start:end]
    if not part or start < 0:
        return False  # see "span beyond text"
    if surface:
        return part.strip().lower() != surface.strip().lower()
    if part != part.strip():
        return True
    return any(within_word(text, at) for at in (start, end))


def within_word(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    before, behind = text[at - 1], text[at]
    return before.isalpha() and behind.isalpha() and before < "\u0250" and behind < "\u0250"
