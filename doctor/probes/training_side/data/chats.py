"""Rows of text as the tokens that a training makes of them: chats by the tokenizer's template."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers
from .documents import Document, Tokens
from .templates import render, tokenized
from .vocabulary import Vocabulary

CHATS = ("messages", "conversations", "conversation", "chosen")
ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "system": "system",
         "user": "user", "assistant": "assistant", "tool": "tool"}  # fmt: skip
PROMPTS, ANSWERS = ("prompt", "instruction", "question", "input"), (
    "completion", "output", "response", "answer")  # fmt: skip
SHORT_NAMES = {"q": "question", "a": "answer"}
MOST_ROWS = 5


class Chats:
    """Rows rendered so far; `record` has what did not work."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.rendered = self.failed = self.unlike = self.lost = self.calls = 0
        self.lost_rows: List[int] = []
        self.errors: Dict[str, int] = {}
        self.rows: List[int] = []

    def documents(self, row: Foreign, number: int) -> List[Document]:
        """The document of a row; [] if it is no text or was not rendered."""
        tokenizer = self.vocabulary.tokenizer
        if tokenizer is None or not containers.is_mapping(row):
            return []
        row = with_names(row)
        chat = messages_of(row)
        try:
            if chat is not None:
                return [self._chat(chat, number)]
            pair = pair_of(row)
            if pair is None:
                return []
            return [self._pair(pair, number)]
        except Exception as error:
            self.failed += 1
            name = type(error).__name__
            self.errors[name] = self.errors.get(name, 0) + 1
            self.rows += [number] if len(self.rows) < MOST_ROWS else []
            return []

    def _chat(self, chat: List[Dict[str, Any]], number: int) -> Document:
        tokenizer = self.vocabulary.tokenizer
        try:
            text = render(tokenizer, chat, False)
        except Exception:
            if not any(map(is_call, chat)):
                raise
            chat = [{**each, "content": ""} if is_call(each) else each for each in chat]
            text = render(tokenizer, chat, False)
            self.calls += 1
        if any(is_lost(each, text) for each in chat[-2:]):
            self.lost += 1
            self.lost_rows += [number] if len(self.lost_rows) < MOST_ROWS else []
        ids = tokenized(tokenizer, text)
        labels = torch.full((len(ids),), -100)
        last = max((i for i, each in enumerate(chat) if each["role"] == "assistant"), default=None)
        if last is not None:
            before = tokenized(tokenizer, render(tokenizer, chat[:last], True)) if last else []
            if ids[: len(before)] == before:
                labels[len(before) :] = torch.tensor(ids[len(before) :])
            else:
                self.unlike += 1
        self.rendered += 1
        made = torch.tensor(ids)
        return Document(number, made, labels if last is not None else None, made[:0])

    def _pair(self, pair: Tuple[str, str], number: int) -> Document:
        tokenizer = self.vocabulary.tokenizer
        before = list(tokenizer(pair[0])["input_ids"]) if pair[0] else []
        ids = torch.tensor(list(tokenizer(pair[0] + pair[1])["input_ids"]))
        self.rendered += 1
        return Document(number, ids, None if not before else ids.clone(), ids[:0])

    def record(self) -> Optional[Dict[str, Any]]:
        if not self.rendered and not self.failed:
            return None
        return {
            "type": "Rendered",
            "rows": self.rendered,
            "failed": self.failed,
            "errors": self.errors,
            "failed_rows": self.rows,
            "unlike": self.unlike,
            "lost": self.lost,
            "calls": self.calls,
            "lost_rows": self.lost_rows,
        }


def is_call(message: Dict[str, Any]) -> bool:
    """Whether it calls a tool and says nothing."""
    return message.get("content", "") is None and bool(message.get("tool_calls"))


def is_lost(message: Dict[str, Any], text: str) -> bool:
    """Whether the template left a message out, where that is a text of the dialogue itself."""
    content = message.get("content") if message.get("role") != "system" else None
    words = content.split() if isinstance(content, str) and "<" not in content else []
    return bool(words) and max(words, key=len) not in text


def as_tokens(document: Document) -> Tokens:
    labels = document.labels
    return Tokens(document.ids[None], None if labels is None else labels[None], None, {})


def messages_of(row: Foreign) -> Optional[List[Dict[str, Any]]]:
    """The messages of a row with the names of roles that templates know; None if it has none."""
    for name in CHATS:
        value = row.get(name)
        if isinstance(value, list) and value and containers.is_mapping(value[0]):
            if name == "chosen" and isinstance(row.get("prompt"), list):
                value = [*row["prompt"], *value]
            return [_message(each) for each in value]
    prompt, answer = _first(row, PROMPTS), _first(row, ANSWERS)
    if isinstance(prompt, list) and isinstance(answer, list):
        return [_message(each) for each in (*prompt, *answer)]
    return None


def _message(value: Foreign) -> Dict[str, Any]:
    if "role" in value:
        return dict(value)
    role = str(value.get("from"))
    return {"role": ROLES.get(role, role), "content": value.get("value"), "from": role}


def asked_of(row: Foreign) -> List[str]:
    """What the user says in a row of any form: the messages of a chat, or the prompt of a pair."""
    chat = messages_of(row)
    if chat is None:
        value = _first(row, PROMPTS)
        if isinstance(value, str):
            return [value]
        chat = value if isinstance(value, list) else []
    messages = (_message(each) for each in chat if containers.is_mapping(each))
    said = (each.get("content") for each in messages if each.get("role") == "user")
    return [each for each in said if isinstance(each, str)]


def told_of(row: Foreign) -> List[str]:
    """What the model shall say, in the same way; nothing of a chat that calls a tool, as its texts
    are not all that is said."""
    chat = messages_of(row)
    if chat is None:
        value = _first(row, (*ANSWERS, "solution", "ground_truth"))
        return [str(value)] if isinstance(value, (str, int, float)) else []
    said = [each for each in chat if each.get("role") == "assistant"]
    if any(each.get("tool_calls") or each.get("function_call") for each in said):
        return []
    return [each["content"] for each in said if isinstance(each.get("content"), str)]


def with_names(row: Foreign) -> Foreign:
    """The row, with q and a as question and answer where it has both."""
    if "q" not in row or "a" not in row or not isinstance(row["q"], str):
        return row
    return {SHORT_NAMES.get(name, name): value for name, value in row.items()}


def pair_of(row: Foreign) -> Optional[Tuple[str, str]]:
    """Prompt and answer, or "" and the text."""
    prompt, answer = _first(row, PROMPTS), _first(row, ANSWERS)
    if isinstance(prompt, str) and isinstance(answer, str):
        return prompt, answer
    texts = [each for each in row.values() if isinstance(each, str)]
    text = row.get("text", texts[0] if len(texts) == 1 else None)
    return ("", text) if isinstance(text, str) and text else None


def _first(row: Foreign, names: Any) -> Foreign:
    return next((row[name] for name in names if row.get(name) is not None), None)
