"""Lists of files in a dataset that belong together by their place: whether their names do, too."""

from __future__ import annotations

import os
import re
from itertools import combinations
from typing import Any, Dict, Iterator, List, Tuple

from ..foreign import Foreign, containers, observing
from . import rows
from .relations import relation
from .targets import Source
from .two_splits import unwrapped

LEAST, ALIKE = 8, 0.9
"""Files of a list, and share of the names that both lists have. Our own numbers."""
KIND = re.compile(
    r"(?i)[_.-]?(masks?|gt|labels?|seg|annotations?|lr|hr|targets?|inputs?|images?|img|noisy|clean|"
    r"leftImg8bit|gtFine|x|y)(?=$|[_.-])"
)

Named = Tuple[str, List[str]]


def of_source(source: Source) -> List[Dict[str, Any]]:
    """Records of lists with the same names in another order."""
    dataset = unwrapped(rows.dataset_of(source))[0]
    found = []
    for (one, ours), (other, theirs) in combinations(lists_of(dataset), 2):
        shared = len(set(ours) & set(theirs))
        if len(ours) != len(theirs) or len(set(ours)) < len(ours) or shared < ALIKE * len(ours):
            continue
        moved = [n for n, (a, b) in enumerate(zip(ours, theirs)) if a != b]
        if len(moved) > len(ours) - shared:
            found.append(relation("files unpaired", len(moved), len(ours), (one, other), moved))
    return found


def lists_of(dataset: Foreign) -> Iterator[Named]:
    """Attributes that list files, and the places of a list of tuples of them."""
    held = observing.attribute(dataset, "__dict__", {})
    for name, value in dict(held).items() if containers.is_mapping(held) else ():
        if not isinstance(value, list) or len(value) < LEAST:
            continue
        if isinstance(value[0], tuple):
            columns = zip(*value) if len({len(each) for each in value}) == 1 else ()
            named = [("%s[%d]" % (name, n), list(each)) for n, each in enumerate(columns)]
        else:
            named = [(name, value)]
        for each, files in named:
            if all(isinstance(one, (str, os.PathLike)) and is_file_name(one) for one in files):
                yield each, [stem_of(one) for one in files]


def is_file_name(value: Foreign) -> bool:
    return bool(re.search(r"\.[A-Za-z0-9]{2,5}$", os.fspath(value)))


def stem_of(value: Foreign) -> str:
    """The name of a file without what says which of its kind it is, and zeros before numbers."""
    stem = KIND.sub("", os.path.splitext(os.path.basename(os.fspath(value)))[0])
    return re.sub(r"(?<!\d)0+(?=\d)", "", stem)
