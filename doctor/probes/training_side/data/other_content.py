"""What a row is about beside its text: another text, or a picture."""

from __future__ import annotations

import re
from typing import Iterable

from ..foreign import Foreign, containers
from .columns import is_blank

WORD, LEAST_WORDS = re.compile(r"[^\W\d_]{2,}"), 3
"""Of a text that is no name, no place and no date. Our own number."""
TITLES = ("title", "headline", "subject", "caption", "description", "summary", "body", "selftext",
          "message", "question", "prompt", "query", "abstract", "comment", "post")  # fmt: skip
PICTURES = re.compile(r"(?i)(?:^|[_-])(?:image|img|photo|picture|video|frame|pixel)s?(?:[_-]|$)")
FILES = re.compile(r"(?i)\S.*\.(?:jpe?g|png|gif|webp|bmp|tiff?|mp4|avi|webm|wav|mp3|flac)")


def holds_other_content(row: Foreign, apart: Iterable[str]) -> bool:
    """Whether a column holds a text or a picture, `apart` from the columns of these names."""
    left_out = set(apart)
    return any(_is_content(str(n), v) for n, v in row.items() if str(n).lower() not in left_out)


def _is_content(name: str, value: Foreign) -> bool:
    if is_blank(value):
        return False
    if PICTURES.search(name):
        return isinstance(value, (str, bytes, list, tuple)) or containers.is_mapping(value)
    if not isinstance(value, str):
        return False
    titled = name.lower() in TITLES
    return titled or bool(FILES.fullmatch(value)) or len(WORD.findall(value)) >= LEAST_WORDS
