"""Numbered files in the order of text beside the lines of a file: 10.png gets the line of 2.png."""

from __future__ import annotations

import ast
import os
from typing import Any, Dict, Iterator, List, Set

from ..foreign import Foreign, observing
from . import rows
from .file_order import misordered
from .relations import relation
from .targets import Source, size
from .two_splits import unwrapped

MOST = 200_000
READS = {"open", "readlines", "splitlines", "read_csv", "read_table", "read_json", "read_text",
         "load", "loads", "loadtxt", "genfromtxt", "loadmat", "reader"}  # fmt: skip


def of_source(source: Source, code: str) -> List[Dict[str, Any]]:
    """A record of two lists of a dataset that are paired by place: files, and what another file has
    in its own order."""
    dataset, _ = unwrapped(rows.dataset_of(source))
    count = size(dataset) or 0
    if not 0 < count <= MOST:
        return []
    held = dict(observing.attribute(dataset, "__dict__", {}))
    alike = {str(n): e for n, e in held.items() if n and (size(e) or 0) == count}
    paths = {name: texts for name, each in alike.items() if (texts := paths_of(each))}
    read = read_from_files(code) if paths else {}
    for name, texts in paths.items():
        wrong = misordered(texts)
        others = [n for n in alike if n not in paths and n in read and name not in read[n]]
        if others and 2 * len(wrong) > count:
            names = [os.path.basename(each) for each in wrong[:3]]
            return [relation("lines of other files", len(wrong), count, (*names, others[0]))]
    return []


def paths_of(value: Foreign) -> List[str]:
    """Names of files with an ending; [] of other lists."""
    if not isinstance(value, (list, tuple)) or not isinstance(value[0], (str, os.PathLike)):
        return []
    texts = [str(each) for each in value]
    return texts if all(os.path.splitext(each)[1] for each in texts) else []


def read_from_files(code: str) -> Dict[str, Set[str]]:
    """Names and attributes whose value comes out of an open file, and the names in that value."""
    tree = ast.parse(code)
    sources: Dict[str, Set[str]] = {}
    handles = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if item.optional_vars is not None
        for name in names_in(item.optional_vars)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            used = set(names_in(node.value))
            if used & (READS | handles | set(sources)):
                for name in list(names_in(node.targets[0]))[-1:]:
                    sources[name] = used
    return sources


def names_in(node: ast.AST) -> Iterator[str]:
    """Names and attributes, those that are called among them; of self.a the attribute alone comes
    last."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute):
            yield each.attr
