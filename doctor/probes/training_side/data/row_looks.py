"""What rows of a split show that are read once more."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from . import passes, row_seeds
from .targets import Source

Look = Callable[[], List[Dict[str, Any]]]


def of_source(source: Source) -> List[Look]:
    """Functions that give relations."""
    looks: List[Look] = [lambda: passes.of_source(source)]
    return [*looks, lambda: row_seeds.of_source(source)] if source.name == "train" else looks
