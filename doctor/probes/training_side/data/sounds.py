"""Files of sound that reading opens: their rates, and whether the source of the target asks for
one.

Headers of RIFF (wav) and FLAC are read here; other formats are left alone.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections import Counter
from typing import Any, Dict, List, Optional

from ..foreign import Foreign, containers, observing
from . import rows
from .relations import relation
from .targets import Source, size

MOST_FILES, LEAST_FILES = 512, 16
"""Files whose headers are read, and below which nothing is said."""
ENDS = (".wav", ".flac")
NAMED = r"(sr|fs|rate|\w*framerate|\w*samplerate|sample_rate|sampling_rate)"
RATE = re.compile(
    r"(?i)resampl|librosa\.load|cast_column|sampling_rate=|\borig_(sr|freq)|decimate|AudioDecoder|"
    r"\b{0}(\(\))?\s*(!=|==|<|>|\*|/)|(\*|/|==|!=)\s*(\w+\.)?{0}\b|"
    r"\b(if|assert|while)\b[^\n]*\b{0}\b|\w\([^()\n]*\b{0}\b[^()\n]*\)".format(NAMED)
)
"""Words of a source that does something with the rate of a file: compares it, computes with it, or
hands it on; that it is read and returned changes nothing."""


class Opened:
    """Paths of sound that Python opens from now on."""

    def __init__(self) -> None:
        self.paths: Dict[str, None] = {}
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: Any) -> None:
        if event == "open" and len(self.paths) < MOST_FILES:
            path = arguments[0]
            if isinstance(path, str) and path.lower().endswith(ENDS):
                self.paths.setdefault(path)


def of_source(source: Source, opened: Optional[Opened], code: str) -> List[Dict[str, Any]]:
    """A record of files with another rate than most, where the source never looks at it."""
    paths = list(opened.paths) if opened is not None else []
    paths += [each for each in named_in(source) if each not in paths]
    rates = [rate for rate in map(rate_of, paths[:MOST_FILES]) if rate]
    counts = Counter(rates).most_common()
    if len(rates) < LEAST_FILES or len(counts) < 2 or not code or RATE.search(code):
        return []
    other = len(rates) - counts[0][1]
    return [relation("sound rates mixed", other, len(rates), (), (),
                     (counts[0][0], counts[1][0]))]  # fmt: skip


def named_in(source: Source) -> List[str]:
    """Files that the attributes of a dataset list, by their whole path."""
    dataset = rows.dataset_of(source)
    if dataset is None or not size(dataset):
        return []
    held = observing.attribute(dataset, "__dict__", {})
    found: List[str] = []
    for value in dict(held).values() if containers.is_mapping(held) else ():
        for each in value[:MOST_FILES] if isinstance(value, list) else ():
            for one in each if isinstance(each, (tuple, list)) else (each,):
                found += [os.fspath(one)] if is_sound(one) else []
    return found


def is_sound(value: Foreign) -> bool:
    return isinstance(value, (str, os.PathLike)) and os.fspath(value).lower().endswith(ENDS)


def rate_of(path: str) -> int:
    """Samples in a second; 0 where the header is none."""
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError:
        return 0
    if head[:4] == b"RIFF" and (at := head.find(b"fmt ")) >= 0 and len(head) >= at + 16:
        return int(struct.unpack_from("<I", head, at + 12)[0])
    if head[:4] == b"fLaC" and len(head) >= 21:
        return int.from_bytes(head[18:21], "big") >> 4
    return 0
