"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings


def examples(thorough: int) -> int:
    """That many with the profile `thorough`, else as large a share of it as the profile says."""
    return max(thorough * settings().max_examples // 100, 10)
