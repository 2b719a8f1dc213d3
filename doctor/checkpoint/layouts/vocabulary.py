"""The tokens of two models beside each other: their numbers, how texts are cut, the template."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, read_json, read_whole
from doctor.checkpoint.records.merge import TokenizerChange

LIMIT = 64 << 20
"""Bytes of a tokenizer.json that is read."""
TEMPLATE = "chat_template.jinja"
FEW = 5


class _Token(msgspec.Struct):
    content: str
    id: int


class _Model(msgspec.Struct):
    type: str = ""
    vocab: dict[str, int] | list[tuple[str, float]] = {}
    merges: list[str | list[str]] = []


class _File(msgspec.Struct):
    model: _Model
    added_tokens: list[_Token] = []
    normalizer: Any = None
    pre_tokenizer: Any = None

    def numbers(self) -> dict[str, int]:
        """Token -> its number."""
        vocab = self.model.vocab
        if isinstance(vocab, list):
            vocab = {text: number for number, (text, _) in enumerate(vocab)}
        return vocab | {token.content: token.id for token in self.added_tokens}

    def rules(self) -> dict[str, object]:
        """What cuts a text into tokens; merges are written as text or as pairs."""
        merges = [each if isinstance(each, str) else " ".join(each) for each in self.model.merges]
        return {
            "merges": merges,
            "normalizer": _kinds(self.normalizer),
            "pre_tokenizer": _kinds(self.pre_tokenizer),
        }


def compare_tokenizers(now: Directory, origin: Directory, name: str) -> TokenizerChange | None:
    """`name`: of the origin, as it is told. None where one of them has no tokenizer.json."""
    new, old = _read(now), _read(origin)
    if new is None or old is None:
        return None
    numbers, before = new.numbers(), old.numbers()
    moved = [text for text, number in before.items() if numbers.get(text, number) != number]
    rules, earlier = new.rules(), old.rules()
    return TokenizerChange(
        origin=name,
        moved=len(moved),
        examples=tuple(
            f"{shown(text, 40)}: {before[text]:,}, now {numbers[text]:,}" for text in moved[:FEW]
        ),
        added=len(numbers.keys() - before.keys()),
        removed=len(before.keys() - numbers.keys()),
        rules=tuple(key for key in rules if rules[key] != earlier[key]),
        template=_template(now) != _template(origin),
    )


def _read(directory: Directory) -> _File | None:
    try:
        return msgspec.json.decode(read_whole(directory, "tokenizer.json", LIMIT), type=_File)
    except (CheckpointError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _kinds(part: object) -> list[str]:
    """The types in a part of the file, in order; their settings get new entries with versions."""
    if isinstance(part, list):
        return [kind for each in part for kind in _kinds(each)]
    if not isinstance(part, dict):
        return []
    own = [part["type"]] if isinstance(part.get("type"), str) else []
    return own + [kind for value in part.values() for kind in _kinds(value)]


def _template(directory: Directory) -> str:
    """The chat template in either of its places, "" for none."""
    try:
        return read_whole(directory, TEMPLATE, LIMIT).decode("utf-8", "replace").strip()
    except CheckpointError:
        pass
    try:
        found = read_json(directory, "tokenizer_config.json", LIMIT).get("chat_template")
    except CheckpointError:
        return ""
    return found.strip() if isinstance(found, str) else ""
