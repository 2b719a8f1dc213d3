"""Numbered files that are read in the order of their names as text: 1, 10, 11, 2."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Dict, List

from ..foreign import containers, observing
from . import rows
from .relations import relation
from .targets import Source, as_batch, size

MOST_PATHS, LEAST_FILES = 20_000, 4
NUMBER = re.compile(r"\d+")
LIBRARIES = ("site-packages", "dist-packages", "__pycache__")


class Numbered:
    """Files with a number in their name, in the order in which Python first opens them."""

    def __init__(self) -> None:
        self.paths: Dict[str, None] = {}
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: Any) -> None:
        if event != "open" or len(self.paths) >= MOST_PATHS:
            return
        path = arguments[0]
        numbered = isinstance(path, str) and NUMBER.search(os.path.basename(path))
        if numbered and not any(each in path for each in LIBRARIES):
            self.paths.setdefault(path)


def of_source(source: Source, opened: Numbered) -> List[Dict[str, Any]]:
    """A record of a series of files in the order of text, where rows are pieces of a sequence."""
    found = misordered(list(opened.paths))
    if not found or not is_sequence(source):
        return []
    names = tuple(os.path.basename(each) for each in found[:3])
    return [relation("files in text order", len(found), len(found), names)]


def misordered(paths: List[str]) -> List[str]:
    """The longest series of files whose order is that of text, and not that of their numbers."""
    series: Dict[str, List[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        series.setdefault(os.path.join(folder, NUMBER.sub("#", name)), []).append(path)
    wrong = [
        each
        for each in series.values()
        if len(each) >= LEAST_FILES and each == sorted(each) != sorted(each, key=numbers_of)
    ]
    return max(wrong, key=len, default=[])


def numbers_of(path: str) -> List[int]:
    return [int(each) for each in NUMBER.findall(os.path.basename(path))]


def is_sequence(source: Source) -> bool:
    """Whether a row has measured steps, or pictures one behind the other."""
    dataset = rows.dataset_of(source)
    if not size(dataset) or not observing.has(dataset, "__getitem__"):
        return False
    each = containers.tensors(as_batch(dataset[0])).values()
    steps = [e for e in each if e.is_floating_point() and e.dim() in (2, 3) and e.shape[1] > 2]
    return bool(steps) or any(e.dim() == 5 for e in each)
