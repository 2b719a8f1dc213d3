"""Texts of a token a line with its tags, and a blank line behind each sentence, as CoNLL's."""

from __future__ import annotations

HEAD = 1 << 16
LEAST, MOST_COLUMNS = 20, 16
"""Lines by which such a file is told, and columns of one. Our own numbers."""
ALIKE, SENTENCES = 0.95, 3
"""Share of the lines with one number of columns, and sentences in the beginning. Our own
numbers."""
LONGEST = 100
"""Lines of a sentence, on average."""


def are_tokens(path: str) -> bool:
    """Whether the lines of a file are tokens, so that a row is the sentence of several lines."""
    with open(path, "rb") as file:
        head = file.read(HEAD)
    lines = head.split(b"\n")
    lines = lines[:-1] if len(head) == HEAD else lines
    filled = [each for each in lines if each.strip() and not each.startswith(b"# ")]
    if len(filled) < LEAST:
        return False
    counts = [len(each.split()) for each in filled]
    columns = max(set(counts), key=counts.count)
    starts = sum(bool(b.strip()) and not a.strip() for a, b in zip([b"", *lines], lines))
    alike = counts.count(columns) >= ALIKE * len(filled)
    several = max(SENTENCES, len(filled) / LONGEST) <= starts <= len(filled) / 2
    return 2 <= columns <= MOST_COLUMNS and alike and several
