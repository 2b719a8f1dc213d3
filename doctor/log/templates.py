"""Rows reduced to their letters: the rows of a training log differ mostly in their numbers.

Deleting characters keeps substrings: if a row contains a text, the row's letters contain the text's
letters. So what cannot be in a row follows from its letters, and is remembered for all alike.
"""

from __future__ import annotations

import string

LETTERS = (string.ascii_letters + "_").translate({ord(letter): None for letter in "eE"})
"""Without e, which numbers contain as well: 1.2e-05."""
DELETED = bytes(byte for byte in range(256) if chr(byte) not in LETTERS)
LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())


def letters_of(row: bytes) -> bytes:
    """The letters of a row in lower case, without e."""
    return row.translate(LOWER, DELETED)


def letters(text: str) -> bytes:
    """The letters of a text, as they are in those of a row that contains it."""
    return letters_of(text.encode("utf-8", "replace"))
