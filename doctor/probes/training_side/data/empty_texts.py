"""Rows that ask nothing or answer nothing, and answers that hold the tokens of a template.

Only counts, names of columns and numbers of rows leave this module.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Set

from ..foreign import Foreign
from .chats import PROMPTS, messages_of, told_of
from .missing_cells import CLASSES, MOST
from .other_content import holds_other_content
from .pages import ANSWERED, DOCUMENTS
from .relations import relation
from .row_texts import CONTEXTS, answer_is_empty
from .templates import MARKERS

GIVEN = (*PROMPTS, *DOCUMENTS, "sentence", "query")
"""Columns of texts, one of which is enough."""
OTHERWISE = re.compile(r"(?i)audio|wav|speech|sound|image|video|picture|photo|file|input_ids")
"""In the name of a column that a text may be empty beside."""
OF_MESSAGE = ("role", "content", "from", "value", "name", "weight", "id", "train")
STAND_INS = ("n/a", "nan", "<noinput>")
"""Of an answer; None may be one, as to which of these is meant."""
NO_INPUTS = (*STAND_INS, "none", "no input")
FREE, RENDERED = 0.3, 0.9
"""Shares of different answers from which on they are no classes, and of those with such tokens from
which on a template made all of them. Our own numbers."""
TOKENS = re.compile("|".join(map(re.escape, (*MARKERS, "<|endoftext|>", "<|prompter|>", "</s>"))))
STRUCK = "<s>"
"""Of HTML, which </s> ends."""


class EmptyTexts:
    """Counts over the rows of a file; `records` has them."""

    def __init__(self) -> None:
        self._counts = {"asked": 0, "turns": 0, "answers": 0, "pairs": 0, "inputs": 0}
        self._rows: Dict[str, List[int]] = {}
        """Kind -> its rows."""
        self._no_inputs = 0
        self._blank = ""
        """The column of the first row without a text."""
        self._different: Set[int] = set()

    def add(self, row: Foreign, number: int) -> None:
        chat = messages_of(row)
        if chat is None:
            self._add_given(row, number)
            self._add_input(row, number)
        else:
            silent = any(map(is_silent, chat)) and not any(OTHERWISE.search(str(n)) for n in row)
            self._count("turns", "user message empty", silent, number)
        self._add_answer(row, number, chat is None)

    def _count(self, whole: str, kind: str, holds: bool, number: int) -> None:
        self._counts[whole] += 1
        if holds:
            self._rows.setdefault(kind, []).append(number)

    def _add_given(self, row: Foreign, number: int) -> None:
        """What has a class is counted as "text empty"."""
        lower = {str(name).lower(): name for name in row}
        names = [n for n in GIVEN if n in lower and isinstance(row[lower[n]], str)]
        if not names or any(
            name in (*CLASSES, "category") or OTHERWISE.search(name) for name in lower
        ):
            return
        empty = all(is_empty(row[lower[name]]) for name in names)
        empty = empty and not holds_other_content(row, (*names, *ANSWERED))
        self._count("asked", "nothing asked", empty, number)
        self._blank = self._blank or (str(lower[names[0]]) if empty else "")

    def _add_input(self, row: Foreign, number: int) -> None:
        """Beside an instruction, where other rows write nothing for no input."""
        value = row.get("input")
        if isinstance(value, str) and isinstance(row.get("instruction"), str):
            self._no_inputs += is_empty(value)
            stands = value.strip().lower() in NO_INPUTS
            self._count("inputs", "input stands in", stands, number)

    def _add_answer(self, row: Foreign, number: int, pair: bool) -> None:
        empty = answer_is_empty(row)
        if empty is None or any(row.get(name) for name in CONTEXTS):
            return
        text = "\n".join(told_of(row))
        self._different.add(hash(text))
        self._count("answers", "answer empty", empty, number)
        if text.strip().lower() in STAND_INS:
            self._rows.setdefault("stand-in", []).append(number)
        if pair:
            marked = TOKENS.search(text) is not None and STRUCK not in text
            self._count("pairs", "tokens in answer", marked, number)

    def records(self) -> List[Dict[str, Any]]:
        counts, rows = self._counts, self._rows
        if len(self._different) >= FREE * counts["answers"]:
            empty = [*rows.get("answer empty", ()), *rows.pop("stand-in", ())]
            rows["answer empty"] = sorted(empty)
        if len(rows.get("tokens in answer", ())) >= RENDERED * counts["pairs"]:
            rows.pop("tokens in answer", None)
        if 2 * self._no_inputs < counts["inputs"]:
            rows.pop("input stands in", None)
        found = []
        kinds = (("nothing asked", "asked"), ("user message empty", "turns"),
                 ("answer empty", "answers"), ("tokens in answer", "pairs"),
                 ("input stands in", "inputs"))  # fmt: skip
        for kind, whole in kinds:
            held = rows.get(kind)
            if not held:
                continue
            fields = (self._blank,) if kind == "nothing asked" else ()
            document = whole == "asked" and self._blank.lower() in DOCUMENTS
            if whole in ("asked", "turns") and not document and len(held) > MOST * counts[whole]:
                kind, fields = "nothing asked in many", fields or ("the user's messages",)
            found.append(relation(kind, len(held), counts[whole], fields, held))
        return found


def is_silent(message: Dict[str, Any]) -> bool:
    """Whether the user says nothing, and the message has nothing else, as pictures."""
    more = any(value for name, value in message.items() if name not in OF_MESSAGE)
    return message.get("role") == "user" and is_empty(message.get("content")) and not more


def is_empty(value: Foreign) -> bool:
    return isinstance(value, str) and not value.strip()
