"""Lines reduced to their letters: the lines of a training log differ mostly in their numbers.

A block of a log has few different templates, however many lines it has, so each template is
classified once. Deleting characters keeps substrings: if a line contains a text, the line's letters
contain the text's letters.
"""

from __future__ import annotations

import string

KEPT = (string.ascii_letters + "_").translate({ord(letter): None for letter in "eE"})
"""Without e, which numbers contain as well: 1.2e-05."""
DELETED = bytes(byte for byte in range(256) if chr(byte) not in KEPT + "\n\r")
LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())


def templates(block: bytes) -> list[bytes]:
    """The letters of each line of the block; lines end with a newline or a carriage return."""
    return block.translate(LOWER, DELETED).splitlines()


def letters(text: str) -> bytes:
    """The letters of one text, as they are in the template of a line that contains it."""
    return text.encode("utf-8", "replace").translate(LOWER, DELETED + b"\n\r")
