"""Files of rows: empty, short, equal and missing ones, and those of each split."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from .files import HEAD, MOST_NAMES, Rows
from .targets import Source

SHARD = re.compile(r"^(.*?)[-_.](\d{1,6})(?:[-_]of[-_](\d{1,6}))?\.")


def of_sources(sources: List[Source]) -> Optional[Dict[str, Any]]:
    """The record Shards of the files that were named; None if there is one file alone."""
    paths = [path for each in sources if isinstance(each.items, Rows) for path in each.items.paths]
    if not paths:
        return None
    sizes = {path: os.path.getsize(path) for path in paths}
    return {
        "type": "Shards",
        "files": len(paths),
        "empty": _named([path for path in paths if not sizes[path]]),
        "short": _named([path for each in _series(paths) for path in _short(each, sizes)]),
        "equal": [_named(list(pair)) for pair in _equal(paths, sizes)],
        "missing": [text for group, each in _groups(paths).items() for text in _missing(each)],
        "splits": _splits(sources),
    }


def _splits(sources: List[Source]) -> List[Dict[str, Any]]:
    """The record SplitFiles of each split, and of the files that are of none."""
    parts = [(each.name, each.items) for each in sources if isinstance(each.items, Rows)]
    named = [(name, items.paths) for name, items in parts]
    named += [("", items.left_out) for _, items in parts if items.left_out]
    whole = [path for _, paths in named for path in paths]
    if len(whole) < 2:
        return []
    top = os.path.commonpath([os.path.dirname(path) for path in whole])
    return [
        {"split": name, "files": len(paths),
         "names": [os.path.relpath(path, top) for path in paths[:MOST_NAMES]]}
        for name, paths in named
    ]  # fmt: skip


def _named(paths: List[str]) -> List[str]:
    return [os.path.basename(path) for path in paths[:MOST_NAMES]]


def _series(paths: List[str]) -> List[List[str]]:
    """Files whose names differ in their numbers alone, in the order of the numbers."""
    series: Dict[str, List[str]] = {}
    for path in paths:
        directory, name = os.path.split(path)
        if re.search(r"\d", name):
            series.setdefault(os.path.join(directory, re.sub(r"\d+", "0", name)), []).append(path)
    return [sorted(each, key=_numbers) for each in series.values()]


def _numbers(path: str) -> List[int]:
    return [int(each) for each in re.findall(r"\d+", os.path.basename(path))]


def _short(series: List[str], sizes: Dict[str, int]) -> List[str]:
    """Files below a tenth of the middle size; the last one holds what is left over."""
    if len(series) < 4:
        return []
    middle = sorted(sizes[path] for path in series)[len(series) // 2]
    return [path for path in series[:-1] if 0 < 10 * sizes[path] < middle]


def _groups(paths: List[str]) -> Dict[str, List[str]]:
    """Numbered files by what stands before the number."""
    groups: Dict[str, List[str]] = {}
    for path in paths:
        match = SHARD.match(os.path.basename(path))
        if match:
            groups.setdefault(os.path.dirname(path) + match[1], []).append(path)
    return groups


def _missing(paths: List[str]) -> List[str]:
    """Numbers of a series "00003-of-00012" that no file has."""
    matches = [SHARD.match(os.path.basename(path)) for path in paths]
    totals = {int(each[3]) for each in matches if each and each[3]}
    if len(totals) != 1:
        return []
    total = totals.pop()
    there = {int(each[2]) for each in matches if each}
    first = 0 if 0 in there else 1
    gone = [number for number in range(first, first + min(total, 100_000)) if number not in there]
    return ["%d of %d" % (number, total) for number in gone[:MOST_NAMES]]


def _equal(paths: List[str], sizes: Dict[str, int]) -> List[Tuple[str, str]]:
    """Files of the same content, by their size and the hash of their beginning and end."""
    seen: Dict[Tuple[int, bytes], str] = {}
    pairs = []
    counts: Dict[int, int] = {}
    for size in sizes.values():
        counts[size] = counts.get(size, 0) + 1
    for path in paths:
        if counts[sizes[path]] < 2 or not sizes[path]:
            continue
        digest = hashlib.blake2b(digest_size=16)
        with open(path, "rb") as file:
            digest.update(file.read(HEAD))
            file.seek(max(0, sizes[path] - HEAD))
            digest.update(file.read(HEAD))
        first = seen.setdefault((sizes[path], digest.digest()), path)
        if first != path:
            pairs.append((first, path))
    return pairs[:MOST_NAMES]
