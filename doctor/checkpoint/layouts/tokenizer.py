"""The padding token, by the tokenizer's files beside the weights."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.file_type import is_pointer
from doctor.checkpoint.io.files import Directory, LocalDirectory, read_json
from doctor.checkpoint.layouts.chat_template import is_token, turn_ends
from doctor.checkpoint.layouts.model_config import generates, token_ids
from doctor.checkpoint.records import Problem, Tokenizer

LIMIT = 8 << 20
"""Bytes of tokenizer_config.json and its like that are read."""

HEAD = 1 << 20
"""Bytes of tokenizer.json that are read: special tokens and the first of the vocabulary."""

VOCABULARY = 64 << 20
"""Bytes of a tokenizer.json whose whole vocabulary is read."""

WHOLE = 2**31

_ADDED = re.compile(r'"added_tokens"\s*:\s*(?=\[)')
_VOCABULARY = re.compile(r'"vocab"\s*:\s*([\[{])\s*\[?\s*(?=")')
_EMPTY = re.compile(r'"vocab"\s*:\s*[\[{]\s*[\]}]')
_PIECE = re.compile(rb"\x0a[\x03-\x7f]\x0a[\x01-\x7f]", re.DOTALL)
"""The first piece of a sentencepiece model: a message in field 1, its text in field 1 of that."""

ROLES = ("bos", "eos", "pad")
ORDINARY = "an ordinary token"
SMALL = ("tokenizer_config.json", "special_tokens_map.json")
CONFIGURATIONS = ("config.json", "generation_config.json")


def read_tokenizer(directory: Directory) -> Tokenizer | None:
    """The padding token by the tokenizer's files; None where there are none."""
    problems: list[Problem] = []
    contents = {name: _json(directory, name, problems) for name in (*SMALL, *CONFIGURATIONS)}
    ends = turn_ends(directory, contents[SMALL[0]] or {})
    head, largest, absent = _head(directory, problems, ends)
    files = [name for name in SMALL if contents[name] is not None]
    if head is not None:
        files.append("tokenizer.json")
    if not files:
        return None
    settings = {**(contents[SMALL[1]] or {}), **_present(contents[SMALL[0]] or {})}
    tokens = _tokens(settings.get("added_tokens_decoder"), head or "")
    if head is None:  # classes of one file in Python take them from here
        added = _json(directory, "added_tokens.json", problems) or {}
        tokens |= {n: text for text, number in added.items() if (n := _whole(number)) is not None}
    pad = _text(settings.get("pad_token"))
    first = tokens.get(0, _first(head or ""))
    config = contents["config.json"] or {}
    inner = config.get("text_config")
    text_config = inner if isinstance(inner, dict) else {}
    eos = _text(settings.get("eos_token"))
    return Tokenizer(
        files=tuple(files),
        pad=shown(pad) if pad is not None else None,
        pad_id=_number_of(pad, tokens, head or ""),
        first=shown(first) if first is not None else None,
        eos=shown(eos) if eos is not None else None,
        eos_id=_number_of(eos, tokens, head or ""),
        named={
            f"{key} in {name}": max(numbers)
            for name in CONFIGURATIONS
            for key, numbers in token_ids(contents[name] or {}).items()
        },
        stops=_stops(contents) if generates(config) else (),
        absent_ends=tuple(each for each in absent if each not in tokens.values()),
        ends={text: number for number, text in tokens.items() if text in ends},
        exchanged=_exchanged(contents, settings, tokens) if head is not None else {},
        unk=_shown(settings.get("unk_token")),
        configured={
            name: number
            for name in CONFIGURATIONS
            if (number := _whole((contents[name] or {}).get("pad_token_id"))) is not None
        },
        largest=max([*tokens, *([largest] if largest is not None else [])], default=None),
        largest_added=max(tokens, default=None),
        lacks_vocabulary=_without_vocabulary(directory, contents[SMALL[0]] or {}),
        vocabulary_elsewhere=_sentencepiece(directory) if _is_empty(head or "") else "",
        vocabulary=_largest(config.get("vocab_size"), text_config.get("vocab_size")),
        problems=tuple(problems),
    )


FAST = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that have no other file of their own than tokenizer.json."""
_VOCABULARY_FILE = re.compile(
    r"(?!tokenizer_config)(?:.*(?:vocab|merges|tokenizer|tekken|spiece).*|.+\.(?:model|tiktoken|spm))"
)


def _without_vocabulary(directory: Directory, settings: dict[str, object]) -> str:
    """The tokenizer's class, where the file that it is made from lies nowhere in the directory."""
    named = settings.get("tokenizer_class")
    if named not in FAST or "auto_map" in settings or not isinstance(directory, LocalDirectory):
        return ""
    try:
        names = directory.names()
    except CheckpointError:
        return ""
    return "" if any(map(_VOCABULARY_FILE.fullmatch, names)) else str(named)


def _is_empty(head: str) -> bool:
    """Whether the vocabulary of a tokenizer.json has no entry of a number."""
    return bool(_EMPTY.search(head)) and not _VOCABULARY.search(head)


def _sentencepiece(directory: Directory) -> str:
    """The name of a model of sentencepiece on this machine, by its first bytes; "" for none."""
    if not isinstance(directory, LocalDirectory):
        return ""
    with contextlib.suppress(CheckpointError):
        for name in [each for each in directory.names() if each.endswith(".model")][:10]:
            with contextlib.suppress(CheckpointError), directory.open(name) as source:
                if _PIECE.match(source.read(min(64, source.size), 0)):
                    return shown(name)
    return ""


def _exchanged(
    contents: dict[str, dict[str, object] | None],
    settings: dict[str, Any],
    tokens: dict[int, str],
) -> dict[str, str]:
    """Roles whose number in config.json is an ordinary token or one of another role; {} unless
    several are, the end of a text among them: a single one is often set anew on purpose."""
    numbers, generation = (token_ids(contents[name] or {}) for name in CONFIGURATIONS)
    owns = {role: own for role in ROLES if (own := _text(settings.get(f"{role}_token")))}
    found = dict[str, str]()
    for role, own in owns.items() if tokens else ():
        named = numbers.get(f"{role}_token_id", ())
        texts = [tokens.get(number, ORDINARY) for number in named]
        is_meant = {*named} <= {*generation.get(f"{role}_token_id", ())}
        if texts and not is_meant and {*texts} <= {ORDINARY, *owns.values()} - {own}:
            found[role] = shown(texts[0])
    return found if "eos" in found and len(found) > 1 else {}


def _stops(contents: dict[str, dict[str, object] | None]) -> tuple[int, ...]:
    """Every number of a token that a configuration ends a text with."""
    named = (token_ids(contents[name] or {}).get("eos_token_id", ()) for name in CONFIGURATIONS)
    return tuple(dict.fromkeys(number for numbers in named for number in numbers))


def _json(directory: Directory, name: str, problems: list[Problem]) -> dict[str, Any] | None:
    try:
        return read_json(directory, name, LIMIT)
    except CheckpointError as error:
        if error.kind != "missing":
            problems.append(Problem(kind="note", file=name, text=error.text))
        return None


def _head(
    directory: Directory, problems: list[Problem], texts: tuple[str, ...]
) -> tuple[str | None, int | None, tuple[str, ...]]:
    """The start of tokenizer.json as text, the largest number of its vocabulary, and which of
    these texts are no tokens of it.

    None where there is no such file, or no number that could be read.
    """
    name = "tokenizer.json"
    try:
        with directory.open(name) as source:
            local = isinstance(directory, LocalDirectory) and source.size <= VOCABULARY
            data = source.read(source.size if local else min(HEAD, source.size), 0)
    except CheckpointError as error:
        if error.kind != "missing":
            problems.append(Problem(kind="note", file=name, text=error.text))
        return None, None, ()
    if is_pointer(data):
        problems.append(Problem(kind="disguised", file=name, text="is a git-LFS pointer"))
        return None, None, ()
    try:
        number = _last_number(data) if local else None
    except msgspec.DecodeError:
        number = None
        problems.append(Problem(kind="note", file=name, text="is not valid JSON"))
        texts = ()
    absent = tuple(each for each in texts if not is_token(each, data)) if local else ()
    return data[:HEAD].decode("utf-8", "ignore"), number, absent


class _Model(msgspec.Struct):
    vocab: dict[str, int] | list[msgspec.Raw] = {}


class _File(msgspec.Struct):
    model: _Model


def _last_number(data: bytes) -> int | None:
    """The largest number in the vocabulary of a whole tokenizer.json; None where it has none.

    Raises DecodeError for what is no JSON.
    """
    try:
        vocabulary = msgspec.json.decode(data, type=_File).model.vocab
    except (msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(vocabulary, list):
        return len(vocabulary) - 1 if vocabulary else None
    return max(vocabulary.values(), default=None)


def _present(settings: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in settings.items() if value is not None}


def _text(value: object) -> str | None:
    """A token as text: the files write it plainly or as an object with its content."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and len(value) <= 1000 else None


def _shown(value: object) -> str | None:
    text = _text(value)
    return shown(text) if text is not None else None


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < WHOLE else None


def _largest(*sizes: object) -> int | None:
    """A model with several parts can have two sizes; the outer one may be a default."""
    return max((size for each in sizes if (size := _whole(each)) is not None), default=None)


def _tokens(decoder: object, head: str) -> dict[int, str]:
    """Number -> token, of those that were added to the vocabulary; special ones are among them."""
    tokens: dict[int, str] = {}
    for token in _after(_ADDED, head):
        if isinstance(token, dict):
            _add(tokens, token.get("id"), token)
    for number, token in decoder.items() if isinstance(decoder, dict) else ():
        if isinstance(token, dict) and isinstance(number, str) and number.isdecimal():
            _add(tokens, int(number) if len(number) < 12 else None, token)
    return tokens


def _add(tokens: dict[int, str], number: object, token: dict[object, object]) -> None:
    text = _text(token)
    if (index := _whole(number)) is not None and text is not None:
        tokens[index] = text


def _after(pattern: re.Pattern[str], head: str) -> list[object]:
    """The array behind a key; [] where it is not whole in what was read."""
    at = pattern.search(head)
    if not at:
        return []
    try:
        value, _ = json.JSONDecoder().raw_decode(head, at.end())
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _number_of(pad: str | None, tokens: dict[int, str], head: str) -> int | None:
    """The padding token's number: among the added tokens, else in the vocabulary."""
    if pad is None:
        return None
    if (number := next((each for each, text in tokens.items() if text == pad), None)) is not None:
        return number
    at = _VOCABULARY.search(head)
    if not at or at[1] == "[":
        return 0 if _first(head) == pad else None
    spelled = dict.fromkeys((json.dumps(pad), json.dumps(pad, ensure_ascii=False)))
    pattern = "|".join(rf"{re.escape(each)}\s*:\s*(\d{{1,9}})\b" for each in spelled)
    entry = re.compile(pattern).search(head, at.end())
    return next((int(each) for each in entry.groups() if each), None) if entry else None


def _first(head: str) -> str | None:
    """The first entry of the vocabulary, where it is number 0; files list it by number."""
    at = _VOCABULARY.search(head)
    if not at:
        return None
    try:
        text, end = json.JSONDecoder().raw_decode(head, at.end())
    except (ValueError, RecursionError):
        return None
    zero = at[1] == "[" or re.compile(r"\s*:\s*0\b").match(head, end)
    return text if zero and isinstance(text, str) else None
