"""Files of sound that reading opens: their rates, and whether the source of the target asks for
one.

Headers of RIFF (wav) and FLAC are read here; other formats are left alone.
"""

from __future__ import annotations

import ast
import os
import re
import struct
import sys
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional

from ..foreign import Foreign, containers, observing
from . import rows
from .relations import relation
from .targets import Source, size

MOST_FILES, LEAST_FILES = 512, 16
"""Files whose headers are read, and below which nothing is said."""
ENDS = (".wav", ".flac")
CHANGES = re.compile(r"(?i)resampl|librosa\.load|cast_column|\bAudio\(|\borig_(sr|freq)|decimate|"
                     r"AudioDecoder")  # fmt: skip
"""Words of a source that brings files to one rate."""
READS = ("getframerate", "samplerate", "sample_rate", "framerate")
NAMES = re.compile(r"sr|fs|freq|\w*rate|\w+_(sr|fs)|(sr|fs)_\w+|sampling\w*")
"""Attributes and variables of the rate of a file."""


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
    if len(rates) < LEAST_FILES or len(counts) < 2 or not code or uses_rate(code):
        return []
    other = len(rates) - counts[0][1]
    return [relation("sound rates mixed", other, len(rates), (), (),
                     (counts[0][0], counts[1][0]))]  # fmt: skip


def uses_rate(code: str) -> bool:
    """Whether a source compares the rate of a file, computes with it, hands it on or changes it;
    that
    it is read and returned changes nothing."""
    if CHANGES.search(code):
        return True
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return True
    scopes = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    return any(uses_read_rate(scope) for scope in scopes)


def uses_read_rate(scope: ast.FunctionDef) -> bool:
    """Whether a function does so with a rate that it read itself."""
    names = set(assigned(scope))
    for node in ast.walk(scope):
        for part in operands(node):
            inner = part.func if isinstance(part, ast.Call) else part
            if isinstance(inner, ast.Name) and inner.id in names:
                return True
            if isinstance(inner, ast.Attribute) and inner.attr in READS:
                return True
    return False


def assigned(scope: ast.FunctionDef) -> Iterator[str]:
    """Variables that are named as rates, and are no numbers of the source."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and not is_number(node.value):
            for each in (name for one in node.targets for name in ast.walk(one)):
                if isinstance(each, ast.Name) and NAMES.fullmatch(each.id):
                    yield each.id


def is_number(value: ast.AST) -> bool:
    """Whether it is a number of the source, or one of two."""
    if isinstance(value, ast.IfExp):
        return is_number(value.body) and is_number(value.orelse)
    return isinstance(value, ast.Constant)


def operands(node: ast.AST) -> List[Any]:
    """What a comparison, a computation or a call gets."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Call):
        return [*node.args, *(each.value for each in node.keywords)]
    return []


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
