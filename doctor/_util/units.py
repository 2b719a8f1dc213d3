"""Sizes, counts and versions as the reports and the flags spell them."""

from __future__ import annotations

import re
from collections.abc import Sequence

MIB = 2**20
GIB = 2**30
GB = 10**9
MOST_PARAMETERS = 10**15
"""No model has more."""
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
COUNT = r"^\s*(?=[\d.]*[1-9])(\d{1,18}(?:\.\d{1,9})?)([kKmMbBtT]?)\s*$"
"""A count as text, such as 8B, in the regular expressions of Python and of JSON Schema."""


def gib(size: float) -> str:
    """Memory, in binary units: "79.6 GiB", "64 MiB", "12 KiB"."""
    if abs(size) >= GIB:
        return f"{size / GIB:.1f} GiB"
    return f"{size / MIB:.0f} MiB" if abs(size) >= MIB or not size else f"{size / 1024:.0f} KiB"


def gb(size: float) -> str:
    """Disk space, in decimal units: "12.3 GB", "40 MB", "49 kB", "200 B"."""
    if abs(size) >= GB:
        return f"{size / GB:.1f} GB"
    if 0 < abs(size) < 1e3:
        return f"{size:.0f} B"
    return f"{size / 1e6:.0f} MB" if abs(size) >= 1e6 or not size else f"{size / 1e3:.0f} kB"


def count(number: int) -> str:
    """Parameters: "8.03B", "40M", "12,345"."""
    for unit, size in (("B", 10**9), ("M", 10**6)):
        if number >= size:
            return f"{number / size:.2f}".rstrip("0").rstrip(".") + unit
    return f"{number:,}"


def counted(number: int, word: str) -> str:
    """ "1 node", "61 nodes"."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def parse_count(text: str) -> int:
    """8B -> 8000000000. Raises ValueError unless it is 1 to 1000T, with k, M, B or T."""
    match = re.search(COUNT, text, re.ASCII)
    number = round(float(match[1]) * _FACTORS[match[2].lower()]) if match else 0
    if not 0 < number <= MOST_PARAMETERS:
        raise ValueError(
            f"{text!r} is not a count of 1 to 1000T; write a number such as 40M, 8B or 1500000"
        )
    return number


def dotted(version: tuple[int, int]) -> str:
    """(9, 0) -> "9.0"."""
    return f"{version[0]}.{version[1]}"


def printable(text: str) -> str:
    """A path or a variable that may not be valid UTF-8, as text that a facts file can hold."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def listed(texts: Sequence[str], most: int) -> str:
    """The first ones: "a, b and 3 more"."""
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def shown(text: str, limit: int = 100) -> str:
    """An untrusted text, safe to print: without secrets, which a cut would make unrecognizable,
    shortened, and control characters escaped.
    """
    from doctor._util.secrets import hide_secrets  # its expressions take a twentieth of a start

    text = hide_secrets(text)
    return visible(text if len(text) <= limit else text[: limit - 3] + "...")


def visible(text: str) -> str:
    """One value on one line: characters are escaped that end a line, are invisible, move the
    cursor or reverse text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
