"""Rows of files as they relate to themselves: a prompt that has the answer, roles in a wrong order,
two forms of one number.

Only counts and numbers of rows leave this module.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any, Dict, List, Optional, Set, Tuple

from ..foreign import Foreign, containers, observing
from . import row_contents
from .chats import ROLES, asked_of, messages_of, told_of, with_names
from .class_names import ClassNames
from .columns import is_blank
from .empty_texts import EmptyTexts
from .exchanged_columns import ExchangedColumns
from .forms import Forms, kind_of
from .given_answers import BEFORE
from .group_units import GroupUnits
from .list_numbers import ListNumbers
from .missing_cells import CLASSES, MissingCells, OtherAnswers
from .other_content import holds_other_content
from .pages import are_swapped, document_of
from .relations import Relations, relation
from .row_names import RowNames
from .row_spans import RowSpans
from .row_texts import texts_of
from .stand_ins import StandIns
from .templates import MARKERS

LONG, WORDS, LEAST_DIFFERENT = 20, 4, 10
"""Characters and words of a text that is no class, and different answers that are no classes. Our
own numbers."""
LONG_DOCUMENT = 100
"""Characters of a text that two authors do not write alike. Our own number."""
OPEN = 0.3
"""Share of different answers from which on they are free texts. Our own number."""
SPEAKERS = re.compile(r"(?i)\s*#*\s*(user|human|assistant|system|gpt|bot)\s*:")
KNOWN_ROLES = {*ROLES, "function", "developer", "observation", "function_call", "ipython", "model",
               "environment", "tool_response", "tool_call"}  # fmt: skip
QUERIES, POSITIVES, NEGATIVES = ("query", "anchor", "question"), ("positive", "pos", "positives"), (
    "negatives", "neg", "negative", "hard_negatives")  # fmt: skip
SIDES = ("chosen", "rejected")
ENTITY, TAG = re.compile(r"&(amp|lt|gt|quot|#\d+|nbsp|apos);"), re.compile(r"</?[a-zA-Z][^<>]*>")
MARKUP = re.compile(r"</(p|div|span|li|ul|td|tr|a|b|i|strong|em|h[1-6])>|<br ?/?>")
TWICE = re.compile(r"&amp;(amp|lt|gt|quot|#\d+|nbsp|apos);")
"""An entity whose & is one again: beside tags it is no page as a browser reads it."""
LEAST_NAME = 4
TEXTS = ("text", "sentence", "review", "content", "tweet")
SPOKEN = ("transcription", "transcript")
RECORDINGS = ("audio", "audio_path", "audio_filepath", "audio_file", "wav", "wav_path")
MOST_LOOKED = 20_000


class WrittenRows:
    """Counts over the rows of a file; `records` has them."""

    def __init__(self, of_cells: bool = False, split: str = "") -> None:
        """`of_cells`: of a file such as CSV, which can hold a list as a text alone; `split`: the
        one that is named, as its rows are not those of train."""
        self.rows, self._split = 0, split
        self._relations = Relations()
        self._answers: Counter[Tuple[bool, int]] = Counter()
        """Whether an answer is long, and its hash."""
        self._copies: List[int] = []
        """Rows whose answer is the prompt."""
        self._edits = 0
        """Rows whose answer is nearly the prompt, as in correcting."""
        self._spelled: Dict[Tuple[str, bool], Dict[str, List[int]]] = {}
        """Role, and whether it is named by "from" -> its spelling -> its rows."""
        self._ends: List[int] = []
        """Rows whose prompt ends with the answer."""
        self._paired = 0
        self._parts = (GroupUnits(), RowSpans(), StandIns(of_cells), ExchangedColumns(),
                       ListNumbers(), MissingCells(), OtherAnswers(), RowNames(of_cells),
                       Forms(), EmptyTexts(), ClassNames())  # fmt: skip
        self._ended: Set[int] = set()
        self._documents: Set[bytes] = set()
        self._kinds: Dict[str, Dict[str, List[int]]] = {}
        """Column -> text or number -> its rows."""
        self._classes: Dict[str, Counter[str]] = {}

    def add(self, row: Foreign, number: int) -> None:
        if self.rows >= MOST_LOOKED or not containers.is_mapping(row):
            return
        self.rows += 1
        self._add_answer(row, number)
        self._add_chat(row, number)
        self._add_sides(row, number)
        self._add_triple(row, number)
        self._add_label(row, number)
        self._add_text(row, number)
        self._add_document(document_of(row), number)
        found = [each for each in texts_of(row) if len(each) > LONG]
        if found:
            plain = not any(TAG.search(each) for each in found)
            escaped = any((ENTITY if plain else TWICE).search(each) for each in found)
            self._relations.count("entities in text", escaped, number)
            self._relations.count("tags in text", any(map(MARKUP.search, found)), number)
        repeated = sum(isinstance(value, str) and value == name for name, value in row.items())
        self._relations.count("header in rows", repeated > 1, number)
        for part in self._parts:
            observing.attempt(lambda: part.add(row, number), None)  # noqa: B023 - called at once
        for name, value in row.items():
            kind = kind_of(value)
            if kind:
                self._kinds.setdefault(str(name), {}).setdefault(kind, []).append(number)

    def _add_document(self, text: str, number: int) -> None:
        """Whether a long text occurred before, whatever stands beside it, as another address."""
        if len(text) >= LONG_DOCUMENT:
            plain = row_contents.normal(text).encode("utf-8", "surrogatepass")
            key = hashlib.blake2b(plain, digest_size=16).digest()
            self._relations.count("document repeated", key in self._documents, number)
            self._documents.add(key)

    def _add_answer(self, row: Foreign, number: int) -> None:
        row = with_names(row)
        prompt, answer = (normal("\n".join(each)) for each in (asked_of(row), told_of(row)))
        if not prompt or not answer:
            return
        self._paired += 1
        self._answers[len(answer) >= LONG, hash(answer)] += 1
        if ends_with(prompt, answer):
            self._ends.append(number)
            self._ended.add(hash(answer))
        equal = answer == prompt
        begins = len(prompt) >= LONG and answer.startswith(prompt) and not equal
        self._relations.count("prompt begins answer", begins, number)
        if equal and len(answer) >= LONG and answer.count(" ") >= WORDS - 1:
            self._copies.append(number)
        self._edits += not equal and is_edit(prompt, answer)

    def _add_chat(self, row: Foreign, number: int) -> None:
        chat = messages_of(row)
        if not chat:
            return
        roles = [str(each.get("role")) for each in chat]
        for role, sender in {(r, str(m.get("from"))) for r, m in zip(roles, chat)}:
            by_from = ROLES.get(sender) == role  # else it is a name beside the role
            spelling = sender if by_from else role
            key = (ROLES.get(role, role), by_from)
            self._spelled.setdefault(key, {}).setdefault(spelling, []).append(number)
        count = self._relations.count
        count("role unknown", any(each not in KNOWN_ROLES for each in roles), number)
        count("roles swapped", are_swapped(chat), number)
        again = any(
            roles[n] == roles[n + 1]
            and roles[n] in ("user", "assistant")
            and not any(each.get("tool_calls") for each in chat[n : n + 2])
            for n in range(len(chat) - 1)
        )
        count("roles repeat", again, number)
        said = [each["content"] for each in chat if isinstance(each.get("content"), str)]
        marked = any(m in text for text in said for m in MARKERS)
        speakers = bool(said) and all(map(SPEAKERS.match, said[-2:]))
        count("markers in text", marked or speakers, number)

    def _add_sides(self, row: Foreign, number: int) -> None:
        chosen, rejected = (row.get(side) for side in SIDES)
        if chosen is None or rejected is None:
            return
        for name, side in zip(SIDES, (chosen, rejected)):
            self._relations.count("side empty", is_blank(last_text(side)), number, name)
        if isinstance(chosen, list) and isinstance(rejected, list):
            self._relations.count("prompts differ", asked(chosen) != asked(rejected), number)
        prompt = row.get("prompt")
        if isinstance(prompt, str) and isinstance(chosen, str) and isinstance(rejected, str):
            twice = len(prompt) >= LONG and chosen.startswith(prompt)
            self._relations.count("prompt begins answer", twice, number, "chosen")
            alike = twice == (len(prompt) >= LONG and rejected.startswith(prompt))
            self._relations.count("prompts differ", not alike, number)

    def _add_triple(self, row: Foreign, number: int) -> None:
        query, positive, negative = (
            next((row[n] for n in names if n in row), None)
            for names in (QUERIES, POSITIVES, NEGATIVES)
        )
        if positive is None or (query is None and negative is None):
            return
        found = {normal(each) for each in texts(positive)}
        if isinstance(query, str):
            self._relations.count("query is positive", normal(query) in found, number)
        if isinstance(negative, (list, tuple)):
            among = any(normal(each) in found for each in texts(negative))
            self._relations.count("positive among negatives", among, number)

    def _add_label(self, row: Foreign, number: int) -> None:
        name = next((n for n in row if str(n).lower() in CLASSES), None)
        value = row.get(name) if name is not None else None
        if not isinstance(value, (str, int, bool)) or is_blank(value):
            return
        self._classes.setdefault(str(name), Counter())[str(value)[:64]] += 1
        others = [v for n, v in row.items() if n != name and (v is None or isinstance(v, str))]
        names = [n for n in row if str(n).lower() in TEXTS]
        if others and len(names) == 1:
            self._add_told(row[names[0]], value, number)

    def _add_text(self, row: Foreign, number: int) -> None:
        """Whether the text of a class or a recording is missing: nothing, or what downloaders of
        tweets write in its place. A class may be of another text or of a picture of the row."""
        names = [n for n in row if str(n).lower() in (*TEXTS, *SPOKEN)]
        value = row[names[0]] if len(names) == 1 else 0
        if value is not None and not isinstance(value, str):
            return
        gone = is_blank(value) or str(value).strip().lower() == "not available"
        classes = (*CLASSES, "category")
        if any(str(n).lower() in RECORDINGS for n in row):
            self._relations.count("transcript empty", gone, number, str(names[0]))
            return
        held = (v for n, v in row.items() if str(n).lower() in classes)
        if any(isinstance(v, (str, int)) and not is_blank(v) for v in held):
            alone = gone and not holds_other_content(row, (*classes, str(names[0]).lower()))
            self._relations.count("text empty", alone, number, str(names[0]))

    def _add_told(self, text: Foreign, value: Foreign, number: int) -> None:
        """Whether the name of the row's own class is a word of its text."""
        if isinstance(text, str) and isinstance(value, str) and len(value) >= LEAST_NAME:
            told = re.search(r"(?i)\b%s\b" % re.escape(value.strip()), text) is not None
            self._relations.count("label in text", told, number)

    def records(self, complete: bool, lines: bool = False) -> List[Dict[str, Any]]:
        """`complete`: no row of the file is left, as files are often sorted by their class;
        `lines`: rows have the numbers of lines."""
        several = any(len(each) > 1 for each in self._classes.values())
        found = [e for e in self._relations.records() if several or e["kind"] != "label in text"]
        found += self._of_answers()
        for name, counts in self._classes.items():
            if complete and len(counts) == 1:
                found.append(relation("one class", sum(counts.values()), self.rows, (name,)))
        for spelled in self._spelled.values():
            names = sorted(spelled, key=lambda each: len(spelled[each]))
            if len(names) > 1:
                fewer = sorted({row for each in names[:-1] for row in spelled[each]})
                chats = len({*fewer, *spelled[names[-1]]})
                found.append(relation("role spelled twice", len(fewer), chats, names, fewer))
        for name, kinds in self._kinds.items():
            if len(kinds) > 1:
                fewer, whole = min(kinds.values(), key=len), sum(map(len, kinds.values()))
                found.append(relation("types mixed", len(fewer), whole, (name,), fewer))
        found += [each for part in self._parts for each in part.records()]
        return [{**each, "split": self._split, "lines": lines} for each in found]

    def _of_answers(self) -> List[Dict[str, Any]]:
        found = []
        if self._ends and len(self._ended) >= LEAST_DIFFERENT:
            found.append(relation("answer ends prompt", len(self._ends), self._paired, (),
                                  self._ends))  # fmt: skip
        free = len(self._answers) >= OPEN * self._paired
        most = self._answers.most_common(1)
        if free and most and most[0][0][0] and most[0][1] > 1:
            found.append(relation("one answer", most[0][1], self._paired))
        if len(self._copies) > self._edits:  # else the task is to correct a text
            found.append(
                relation("answer is prompt", len(self._copies), self._paired, (), self._copies)
            )
        return found


def last_text(value: Foreign) -> Optional[str]:
    """A text, or the content of the last message; None for a call of a tool or an image."""
    if isinstance(value, list):
        last = value[-1] if value else {}
        if not containers.is_mapping(last) or last.get("tool_calls"):
            return "-"
        value = last.get("content", last.get("value"))
        if isinstance(value, list):
            return "-"
    return value if isinstance(value, str) or value is None else "-"


def asked(chat: List[Any]) -> Foreign:
    """The first message of the user, after which two answers may go on as they like."""
    each = (m for m in chat if containers.is_mapping(m))
    users = (m for m in each if m.get("role", m.get("from")) in ("user", "human"))
    found: Dict[str, Any] = next(users, {})
    return found.get("content", found.get("value"))


def normal(text: str) -> str:
    return " ".join(text.split())


def is_edit(prompt: str, answer: str) -> bool:
    """Whether most words of both are the same."""
    if max(len(prompt), len(answer)) > 2 * min(len(prompt), len(answer)):
        return False
    words, others = {*prompt.split()}, {*answer.split()}
    return 2 * len(words & others) > len(words | others)


def texts(value: Foreign) -> List[str]:
    each = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in each if isinstance(one, str)]


def ends_with(prompt: str, answer: str) -> bool:
    """Whether the answer is the prompt's end, as a word of its own."""
    if not prompt.endswith(answer) or len(prompt) == len(answer):
        return False
    before = prompt[: -len(answer)]
    return not before[-1].isalnum() and not BEFORE.search(before[-16:])
