"""Formats that are known by the names of their files only, and what lies in their place."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.file_type import LOOK, in_place_of_weights
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.layouts.file_names import (
    NAMED_ONLY,
    NOT_WEIGHTS,
    OF_TENSORFLOW,
    TENSORFLOW,
)
from doctor.checkpoint.layouts.layout import Layout, not_inspectable
from doctor.checkpoint.records import Problem

MOST_LOOKED_INTO = 100
"""Files of unknown names whose first bytes are read."""


def other_suffix(directory: Directory, names: list[str]) -> Layout | None:
    for ends, kind in NAMED_ONLY.items():
        files = [name for name in names if name.endswith(ends) and not NOT_WEIGHTS.fullmatch(name)]
        if files:
            return unread_format(directory, files, kind)
    return None


def unread_format(directory: Directory, files: list[str], kind: str) -> Layout:
    """A format that is known by name only, or what lies in the place of its files."""
    replaced = [name for name in files[:MOST_LOOKED_INTO] if _is_replaced(directory, name)]
    return (
        Layout(directory, kind, tuple(replaced))
        if replaced
        else not_inspectable(directory, files, kind)
    )


def _is_replaced(directory: Directory, name: str) -> bool:
    """Whether a file is a pointer, a web page or the like, or a link to what is not there."""
    try:
        with directory.open(name) as source:
            return bool(in_place_of_weights(source.read(min(LOOK, source.size), 0)))
    except CheckpointError as error:
        return error.kind == "missing"


def tensorflow(directory: Directory, names: list[str]) -> Layout | None:
    """A checkpoint of TensorFlow: NAME.index beside NAME.data-00000-of-00001."""
    parts = [name for name in names if (match := TENSORFLOW.fullmatch(name)) and match[1]]
    with_index = [name for name in parts if f"{name.rpartition('.')[0]}.index" in names]
    if not with_index:
        return _without_data(directory, names)
    return unread_format(directory, with_index, "TensorFlow checkpoints")


def _without_data(directory: Directory, names: list[str]) -> Layout | None:
    """NAME.index of a checkpoint by its name or by the graph beside it, and no data."""
    indexes = [name.removesuffix(".index") for name in names if name.endswith(".index")]
    found = [each for each in indexes if f"{each}.meta" in names or OF_TENSORFLOW.search(each)]
    if not found:
        return None
    text = f"lies here without its values: no file {shown(found[0])}.data-* is beside it"
    problem = Problem(kind="weightless", file=shown(f"{found[0]}.index"), text=text)
    return Layout(directory, "a TensorFlow checkpoint without its data", problems=(problem,))
