"""Rows of files and tables as they are written: empty answers, garbled text, classes spelled twice.

Only counts and numbers of rows leave this module.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Set

import torch

from ..foreign import Foreign, containers, observing
from .chats import ANSWERS, PROMPTS, messages_of, with_names
from .columns import Columns
from .leaks import Leaks
from .pages import ANSWERED, DOCUMENTS, ends_with_question, is_page

MOST_ROWS = 5
CONTEXTS = ("context", "passage", "paragraph")
"""In which an answer may not be found."""
MOST_VALUES, LONGEST, SHORTEST = 40, 40, 3
"""Different values of a column of classes, and their characters."""
ENCODINGS = ("cp1252", "latin-1")
ESCAPES = re.compile(r"\\[nrt](?![a-z])|\\u[0-9a-fA-F]{4}")
"""Of JSON, written out in a text: a line break as a backslash and n. Before a small letter it may
be LaTeX's or a path."""


REPLACED = re.compile(r"\w\ufffd|\ufffd\w|\ufffd\ufffd")
"""Letters that could not be decoded, U+FFFD in their place: one that stands alone may be quoted."""


class RowTexts:
    """Counts over rows; `record` has them."""

    def __init__(self) -> None:
        self.rows = self.answers = self.empty = self.garbled = self.escaped = 0
        self.replaced = self.contexts = self.chats = self.asked = self.documents = self.pages = 0
        self.replaced_beside = 0
        self.asked_rows: List[int] = []
        self.beside_rows: List[int] = []
        self.page_rows: List[int] = []
        self.empty_rows: List[int] = []
        self.garbled_rows: List[int] = []
        self.replaced_rows: List[int] = []
        self.escaped_rows: List[int] = []
        self._marks: Dict[str, Set[Any]] = {}
        """Column -> whether an answer was empty, with the column's value."""
        self._columns: Dict[str, Optional[Dict[str, List[int]]]] = {}
        """Column -> its values and the rows of each; None: no classes."""
        self._values = Columns()
        self._leaks = Leaks()

    def add(self, row: Foreign, number: int) -> None:
        if containers.is_mapping(row):
            observing.attempt(lambda: self._add(with_names(row), number), None)

    def _add(self, row: Foreign, number: int) -> None:
        self.rows += 1
        empty = answer_is_empty(row)
        if empty is not None:
            self.answers += 1
            self.empty += empty
            self.empty_rows += [number] * (empty and len(self.empty_rows) < MOST_ROWS)
            for name, value in row.items():
                plain = value.item() if is_number(value) else value
                if isinstance(plain, (int, str)) and plain != "":
                    marks = self._marks.setdefault(str(name), set())
                    marks.update([(bool(empty), plain)] if len(marks) < 4 else [])
            self.contexts += any(row.get(name) for name in CONTEXTS)
        asked = ends_with_question(row)
        self.chats += asked is not None
        self.asked += bool(asked)
        self.asked_rows += [number] * (bool(asked) and len(self.asked_rows) < MOST_ROWS)
        texts = texts_of(row)
        self._add_page(row, texts, asked, number)
        escaped = any(map(is_escaped, texts))
        self.escaped += escaped
        self.escaped_rows += [number] * (escaped and len(self.escaped_rows) < MOST_ROWS)
        garbled = any(is_garbled(each) for each in texts if not each.isascii())
        self.garbled += garbled
        self.garbled_rows += [number] * (garbled and len(self.garbled_rows) < MOST_ROWS)
        if is_replaced(texts):
            self._add_replaced(row, number)
        self._values.add(row)
        self._leaks.add(row)
        for name, value in row.items():
            if isinstance(value, str):
                self._add_class(str(name), value, number)

    def _add_page(self, row: Foreign, texts: List[str], asked: Optional[bool], number: int) -> None:
        """Of documents: what has a class or an answer may be about such pages."""
        if asked is not None or any(name in row for name in (*ANSWERED, *PROMPTS)) or not texts:
            return
        self.documents += 1
        page = is_page(texts)
        self.pages += page
        self.page_rows += [number] * (page and len(self.page_rows) < MOST_ROWS)

    def _add_replaced(self, row: Foreign, number: int) -> None:
        if is_replaced(texts_of(told_of(row))):
            self.replaced += 1
            self.replaced_rows += [number] * (len(self.replaced_rows) < MOST_ROWS)
        else:
            self.replaced_beside += 1
            self.beside_rows += [number] * (len(self.beside_rows) < MOST_ROWS)

    def _add_class(self, name: str, value: str, number: int) -> None:
        values = self._columns.setdefault(name, {})
        if values is None:
            return
        values.setdefault(value, []).append(number)
        if len(values) > MOST_VALUES or len(value) > LONGEST:
            self._columns[name] = None

    def record(self) -> Optional[Dict[str, Any]]:
        if not self.rows:
            return None
        spellings = [s for name, values in self._columns.items() for s in _spellings(name, values)]
        return {
            "type": "RowTexts",
            "rows": self.rows,
            "answers": self.answers,
            "empty": self.empty,
            "empty_rows": self.empty_rows,
            "contexts": self.contexts,
            "chats": self.chats,
            "asked": self.asked,
            "asked_rows": self.asked_rows,
            "documents": self.documents,
            "pages": self.pages,
            "page_rows": self.page_rows,
            "garbled": self.garbled,
            "garbled_rows": self.garbled_rows,
            "replaced": self.replaced,
            "replaced_rows": self.replaced_rows,
            "replaced_beside": self.replaced_beside,
            "replaced_beside_rows": self.beside_rows,
            "escaped": self.escaped,
            "escaped_rows": self.escaped_rows,
            "marked_by": next(filter(self._marks_empty, self._marks), ""),
            "spellings": spellings[:MOST_ROWS],
            "leaks": self._leaks.record()[:MOST_ROWS],
            "cuts": self._values.cuts()[:MOST_ROWS],
            "sentinels": self._values.sentinels()[:MOST_ROWS],
        }

    def _marks_empty(self, name: str) -> bool:
        """Whether one value of the column stands in the rows whose answer is empty, and another
        one in all others, as with `is_impossible`."""
        marks = self._marks[name]
        return len(marks) == 2 and len({e for e, _ in marks}) == len({v for _, v in marks}) == 2


def is_number(value: Foreign) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1


def is_escaped(text: str) -> bool:
    """Whether line breaks or letters are escapes of JSON, and the text is no JSON itself."""
    if "\\" not in text or "\n" in text or text.lstrip()[:1] in ("{", "["):
        return False
    return len(ESCAPES.findall(text)) > 1


def answer_is_empty(row: Foreign) -> Optional[bool]:
    """Whether the last answer of a chat, or the answer of a pair, has no content; None: no answer.

    A call of a tool is content.
    """
    chat = messages_of(row)
    if chat is not None:
        last = next((each for each in reversed(chat) if each.get("role") == "assistant"), None)
        if last is None or any(last.get(name) for name in ("tool_calls", "function_call")):
            return None
        content = last.get("content")
        return content is None or (isinstance(content, str) and not content.strip())
    if not any(isinstance(row.get(name), str) and row[name].strip() for name in PROMPTS):
        return None
    answers = [row[name] for name in ANSWERS if name in row]
    answer = next((each for each in answers if each is not None), None)
    if answers and answer is None:
        return True
    return not answer.strip() if isinstance(answer, str) else None


def texts_of(value: Foreign, depth: int = 3) -> List[str]:
    if isinstance(value, str):
        return [value]
    if not depth:
        return []
    parts = value.values() if containers.is_mapping(value) else value
    if not containers.is_mapping(value) and not isinstance(value, (list, tuple)):
        return []
    return [text for part in parts for text in texts_of(part, depth - 1)]


def told_of(row: Foreign) -> List[Foreign]:
    """The answers of a row, or its document."""
    chat = messages_of(row) or []
    answers = [each.get("content") for each in chat if each.get("role") == "assistant"]
    answers += [row[name] for name in ANSWERED if name in row]
    prompted = chat or any(name in row for name in PROMPTS)
    return answers + [row[name] for name in DOCUMENTS if name in row and not prompted]


def is_replaced(texts: List[str]) -> bool:
    return any(REPLACED.search(each) for each in texts if "\ufffd" in each)


def is_garbled(text: str) -> bool:
    """Whether its characters are the bytes of UTF-8, read in another encoding."""
    for encoding in ENCODINGS:
        try:
            if text.encode(encoding).decode("utf-8") != text:
                return True
        except UnicodeError:
            continue
    return False


def _join_short(groups: Dict[str, Set[str]]) -> int:
    """Put classes that are the beginning of one other class with it, where several are; their
    number.

    York and Yorkshire are two: only where the classes are written in several ways otherwise, too.
    """
    if all(len(group) == 1 for group in groups.values()):
        return 0
    long = {
        one: [other for other in groups if other != one and other.startswith(one)]
        for one in groups
        if one.isalpha()
    }
    short = {one: others[0] for one, others in long.items() if len(others) == 1}
    joined = {one: other for one, other in short.items() if len(short) > 1 and other not in short}
    for one, other in joined.items():
        groups[other] |= groups.pop(one)
    return len(joined)


def _spellings(name: str, values: Optional[Dict[str, List[int]]]) -> List[Dict[str, Any]]:
    """A record for a column whose classes are equal but for case and space."""
    if not values or sum(map(len, values.values())) < 4 * len(values):
        return []
    groups: Dict[str, Set[str]] = {}
    for value in values:
        if len(value.strip()) >= SHORTEST:
            groups.setdefault(" ".join(value.casefold().split()), set()).add(value)
    short = _join_short(groups)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return []
    minor = sum(sum(len(values[v]) for v in g) - max(len(values[v]) for v in g) for g in several)
    pairs = [sorted(values[each][0] for each in group)[:2] for group in several]
    return [
        {
            "type": "Spellings",
            "column": name[:60],
            "values": len(values),
            "classes": len(values) - sum(len(group) - 1 for group in several),
            "minor": minor,
            "short": short,
            "pairs": pairs[:MOST_ROWS],
        }
    ]
