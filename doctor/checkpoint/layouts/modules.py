"""The further modules of sentence-transformers beside the model, which modules.json lists."""

from __future__ import annotations

import contextlib
import json

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, read_whole
from doctor.checkpoint.layouts.file_names import FURTHER_MODEL, MODULE, WEIGHTS_OF_MODULES
from doctor.checkpoint.records import Problem

LIST = "modules.json"
LIMIT = 1 << 20
"""Bytes of it that are read."""
MOST = 20
"""Modules that are looked for."""
LIBRARY = "sentence_transformers."
"""Where classes come from; another's code may be of the same name and need no such file."""
CONFIGURED = ("Pooling", "Dense", "LayerNorm", "WeightedLayerPooling")
"""Classes that are made from the config.json of their directory. Normalize and Dropout have none,
and their empty directories are often lost."""


def module_weights(directory: Directory, names: list[str]) -> tuple[str, ...]:
    """Weights of further models: those that Accelerate prepared after the first, and what
    sentence-transformers keeps beside the model.
    """
    prepared = not set(WEIGHTS_OF_MODULES).isdisjoint(names)
    files = [name for name in names if prepared and FURTHER_MODEL.fullmatch(name)]
    if LIST not in names:
        return tuple(files)
    for name in names:
        if MODULE.fullmatch(name):
            with contextlib.suppress(CheckpointError):
                inside = directory.inside(name).names()
                files += [f"{name}/{each}" for each in inside if each in WEIGHTS_OF_MODULES]
    return tuple(files)


def missing_modules(directory: Directory, names: list[str]) -> tuple[Problem, ...]:
    """Modules without which loading fails."""
    if LIST not in names:
        return ()
    try:
        listed = json.loads(read_whole(directory, LIST, LIMIT))
        entries = [each for each in listed if isinstance(each, dict)][:MOST]
    except (CheckpointError, ValueError, TypeError, RecursionError):
        return ()
    types = [(str(each.get("path")), str(each.get("type"))) for each in entries]
    paths = [path for path, kind in types
             if kind.startswith(LIBRARY) and kind.rpartition(".")[2] in CONFIGURED]  # fmt: skip
    lost = [path for path in paths if MODULE.fullmatch(path)
            and not directory.exists(f"{path}/config.json")]  # fmt: skip
    texts = [f"names {shown(path)}, whose config.json is not here" for path in lost]
    return tuple(Problem(kind="missing", file=LIST, text=text) for text in texts)
