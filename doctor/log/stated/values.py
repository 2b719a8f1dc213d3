"""The values of settings."""

from __future__ import annotations

import math
import re

NUMBER = re.compile(
    r"([-+]?(?:\d{1,3}(?:[,_]\d{3})+|\d{1,40})(?:\.\d{0,40})?(?:e[-+]?\d{1,3})?)\s?"
    r"(%|[kmbgt]i?b?|million|billion)?",
    re.IGNORECASE,
)
UNITS = {
    "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12, "million": 1e6, "billion": 1e9, "%": 0.01,
    "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40,
}  # fmt: skip
WORDS = {
    "true": 1.0, "yes": 1.0, "on": 1.0, "false": 0.0, "no": 0.0, "off": 0.0, "none": 0.0,
    "null": 0.0,
}  # fmt: skip


def number_of(text: str) -> float | None:
    """The number that a value is; None for other texts."""
    lowered = text.strip("'\" ").lower()
    if lowered in WORDS:
        return WORDS[lowered]
    match = NUMBER.fullmatch(lowered)
    if match is None:
        return None
    value = float(match[1].replace(",", "").replace("_", "")) * UNITS.get(match[2] or "", 1.0)
    return value if math.isfinite(value) else None
