"""The content of one sample: a digest of it, and its class."""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from typing import Hashable, List, NamedTuple, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from .documents import is_constant

LABELS = ("label", "labels", "target", "targets", "class", "y", "category", "fine_label",
          "sentiment", "emotion", "intent", "species", "diagnosis", "stance")  # fmt: skip
NUMBERS = ("id", "idx", "index", "uuid", "guid", "row_id", "_id", "length", "attention_mask",
           "token_type_ids", "position_ids", "seq_lengths", "num_tokens")  # fmt: skip
"""Columns that do not make two rows different samples."""
OUTCOME = re.compile(r"is_\w+|\w+_(label|class)|outcome|spam|fraud|churn(ed)?|survived")
OF_ROW = re.compile(
    r"(row|sample|record|msg|message|comment|tweet)_id|__index_level_\d+__|unnamed: \d+|"
)
"""Names of a class that is none of LABELS, and of a row's number that is none of NUMBERS: not of a
document, a text or a review, which stands for its content. pandas names the number of a row in the
last three ways."""
OF_SPLIT = ("split", "fold")
"""Beside a text: where a copy was put."""
OF_CHAT = ("source", "dataset")
"""The same beside a whole chat; elsewhere such a column may stand for what the row leaves out."""
OF_TIME = ("date", "datetime", "timestamp", "created_at", "scraped_at")
OF_SENDER = ("location", "place", "city", "country", "user", "username", "user_name", "author",
             "keyword", "keywords", "url", "link")  # fmt: skip
"""Beside such a text with a class: who wrote it, where, and what it was found by. Not an aspect, a
topic or a second text, for which the class of one text may be another."""
SHORT_TEXTS = ("text", "tweet", "sentence", "review", "comment")
"""When a row was made, beside such a text with a class: a copy that was dated anew is one. Events
of a log, which come again by right, have other names."""
FILE = re.compile(r"[/\\]|\.\w{1,5}$")
"""In the path or the name of a file."""
MEDIA = re.compile(r"<(image|audio|video)|'(image|audio|video)")
"""In a chat about what lies elsewhere."""
CHATS = ("messages", "conversations", "conversation")
WORDS = 4
"""Of a text: a table without one has features whose names look like those of a class."""
SHORT = 16
"""Characters or numbers below which equal samples are no surprise."""
MOST_PARTS = 256
"""Parts of a row that are looked at for fractions."""
FRACTION = 4
"""What a measured number tells in place of a whole one, as characters: few are equal by chance."""
TEXTS, TOKENS = {str}, {int, bool}
SPACES = ("  ", "\n", "\t", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f")


Columns = Tuple[Hashable, ...]


class Row(NamedTuple):
    """A sample: its content, and its label where that is a class."""

    content: bytes
    label: Optional[str]
    telling: bool
    """Long enough, so that an equal one is no chance."""
    values: int = 0


class Path(str):
    """A file whose bytes are the sample."""


def row_of(value: Foreign) -> Optional[Row]:
    """The content of a row; None if it has neither text nor numbers."""
    label: Foreign = None
    of_features = False
    if containers.is_mapping(value):
        columns = tuple(value)
        named, is_outcome = label_of(columns)
        of_features = is_outcome and not has_text(value)
        named = None if of_features else named
        label = value[named] if named is not None else None
        tokens = value["input_ids"] if "input_ids" in columns else None
        if tokens is None:
            is_a_class = label is not None and is_class(label)
            kept = kept_of(columns, named, is_a_class)
            value = [value[each] for each in without_places(value, kept)]
        else:
            value = [tokens, *filter(is_measured, value.values())]
    elif isinstance(value, tuple) and len(value) == 2 and is_class(value[1]):
        value, label = value
    digest = hashlib.blake2b(digest_size=16)
    length = feed(digest, value)
    if not length:
        return None
    named = str(_plain(label)) if label is not None and is_class(label) else None
    return Row(digest.digest(), named, length >= SHORT and not of_features, length)


@functools.lru_cache(maxsize=64)
def label_of(columns: Columns) -> Tuple[Optional[Hashable], bool]:
    """The column of the class by its name, and whether that is one of an outcome; Y may be a
    place."""
    names = {str(each): each for each in columns}
    lower = {**{each.lower(): names[each] for each in names if each != "Y"}, **names}
    named = next((lower[each] for each in LABELS if each in lower), None)
    outcomes = [names[each] for each in names if named is None and OUTCOME.fullmatch(each)]
    return (outcomes[-1], True) if outcomes else (named, False)


@functools.lru_cache(maxsize=64)
def kept_of(columns: Columns, label: Optional[Hashable], is_a_class: bool) -> Columns:
    """The columns that make two rows different samples, in the order of their names."""
    left_out = (*NUMBERS, *LABELS, str(label).lower()) if is_a_class else NUMBERS
    if is_a_class and any(str(each).lower() in SHORT_TEXTS for each in columns):
        left_out = (*left_out, *OF_TIME, *OF_SENDER)
    plain = [each for each in sorted(columns, key=str) if str(each).lower() not in left_out]
    return tuple(each for each in plain if not OF_ROW.fullmatch(str(each).lower()))


def without_places(row: Foreign, kept: Columns) -> Columns:
    """Without the columns that say where a copy stands, where the row has its text beside them."""
    chat = any(each in CHATS and isinstance(row[each], list) for each in kept)
    places = [each for each in kept if chat and str(each).lower() in OF_CHAT]
    if places and stands_for_content(row, places):
        places = []
    left = tuple(each for each in kept if str(each).lower() not in OF_SPLIT and each not in places)
    plain = len(left) < len(kept) and (chat or has_text({each: row[each] for each in left}))
    return left if plain else kept


def stands_for_content(row: Foreign, places: List[Hashable]) -> bool:
    """Whether one of the columns may name the image or the file that a chat is about."""
    if any(FILE.search(str(row[each])) for each in places):
        return True
    return any(MEDIA.search(repr(row[each])) for each in CHATS if each in row)


def has_text(row: Foreign) -> bool:
    return any(isinstance(each, str) and each.count(" ") >= WORDS - 1 for each in row.values())


def is_measured(value: Foreign) -> bool:
    """Whether it is an image, a sound or the like, which may differ beside equal tokens."""
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return floating and value.dim() > 1 and value.numel() >= SHORT


def fractions_in(value: Foreign) -> int:
    """How many different fractions a row holds: from SHORT on no two rows are equal by chance."""
    if isinstance(value, float):
        return int(not value.is_integer())
    if containers.is_mapping(value):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        if len(value) <= MOST_PARTS and all(isinstance(each, float) for each in value):
            return len({each for each in value if not each.is_integer()})
        return sum(map(fractions_in, value[:MOST_PARTS]))
    if observing.has(value, "__array_interface__"):
        value = observing.attempt(lambda: torch.as_tensor(value), None)
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return 0
    each = torch.unique(observing.plain(value).cpu())
    return int((each != each.round()).sum())


def is_class(value: Foreign) -> bool:
    plain = _plain(value)
    return isinstance(plain, (int, bool)) or (isinstance(plain, str) and len(plain) < 64)


def _plain(value: Foreign) -> Foreign:
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 and not value.is_floating_point() else None
    return value


def feed(digest: Foreign, value: Foreign) -> int:
    """Add a value to the digest; its characters or numbers."""
    if isinstance(value, torch.Tensor):
        return feed_tensor(digest, value)
    if isinstance(value, (list, tuple)):
        return feed_list(digest, value)
    if containers.is_mapping(value):
        return sum(feed(digest, value[name]) for name in sorted(value, key=str))
    data = bytes_of(value)
    digest.update(data)
    return len(data) - isinstance(value, (str, int, float))


def bytes_of(value: Foreign) -> bytes:
    """The content of a file, a text, a number or an array."""
    if isinstance(value, Path):
        with open(value, "rb") as file:
            return file.read()
    if isinstance(value, str):
        return normal(value).encode("utf-8", "surrogatepass") + b"\0"
    if isinstance(value, bytes):
        return value
    if isinstance(value, (int, float)):
        return b"%s\0" % repr(value).encode()
    if observing.has(value, "tobytes"):  # numpy, PIL
        return bytes(observing.attempt(value.tobytes, b""))
    return b""


def feed_tensor(digest: Foreign, value: torch.Tensor) -> int:
    plain = observing.plain(value).cpu().contiguous()
    digest.update(str(tuple(plain.shape)).encode())
    digest.update(observing.attempt(lambda: plain.numpy().tobytes(), b""))
    if is_constant(plain):
        return 0
    fractions = plain.is_floating_point() and bool((plain != plain.round()).any())
    return plain.numel() * (FRACTION if fractions else 1)


def feed_list(digest: Foreign, value: Foreign) -> int:
    if {*map(type, value)} <= TEXTS:
        data = b"\0".join([normal(each).encode("utf-8", "surrogatepass") for each in value])
        digest.update(data + b"\0" * bool(value))
        return len(data) + bool(value) - len(value)
    if {*map(type, value)} <= TOKENS:
        digest.update(repr(value).encode())
        return len(value) if len(set(value[:SHORT])) > 1 else 0
    return sum(feed_part(digest, each) for each in value)


def feed_part(digest: Foreign, value: Foreign) -> int:
    """Of a column or a part among others: a whole number is one number, however long."""
    length = feed(digest, value)
    return 1 if type(value) in TOKENS else length


def normal(text: str) -> str:
    """The text in Unicode's composed form, with single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    else:
        for each in SPACES:  # much faster than to split it
            if each in text:
                break
        else:
            return text.strip()
    return " ".join(text.split())
