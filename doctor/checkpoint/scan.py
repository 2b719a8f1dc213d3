"""A folder or a file of weights -> what checks ask of a checkpoint."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from doctor.checkpoint import config, history
from doctor.checkpoint.config import Config
from doctor.checkpoint.files import Folder, Wrong, read_json
from doctor.checkpoint.folder import Layout, lay_out
from doctor.checkpoint.index import disagreements
from doctor.checkpoint.names import is_packed, role, shown
from doctor.checkpoint.norms import read_norms
from doctor.checkpoint.safetensors import read_shard, unreadable
from doctor.checkpoint.tensors import Shard, Tensor
from doctor.sections import Checkpoint, Norm, Problem, Role, Unknown

Stage = Callable[[str], AbstractContextManager[None]]

MOST_ROLES = 5_000
"""Roles that are kept; those of mixed dtypes come first."""


def quiet(name: str) -> AbstractContextManager[None]:
    """A stage that tells nobody."""
    return contextlib.nullcontext()


def scan(path: str, stage: Stage = quiet) -> Checkpoint | Unknown:
    """Headers, norms, configuration and history. `stage` names the file that may not answer."""
    began = time.perf_counter()
    with stage(f"look at {shown(path, 300)}"):
        layout = lay_out(path)
    if isinstance(layout, Unknown):
        return layout
    if any(problem.kind == "not-inspectable" for problem in layout.problems):
        return _sizes_only(path, layout, began)
    notes: list[Problem] = []
    said = config.read_config(_json(layout.folder, "config.json", config.LIMIT, stage, notes))
    state = _json(layout.folder, "trainer_state.json", history.LIMIT, stage, notes)
    read = [_read(layout.folder, file, stage) for file in layout.files]
    shards = [shard for shard, _ in read]
    tensors = [tensor for shard in shards for tensor in shard.tensors]
    return Checkpoint(
        path=_text(path),
        layout=layout.kind,
        files=len(shards),
        tensors=len(tensors),
        parameters=sum(tensor.elements for tensor in tensors),
        bytes=sum(shard.size for shard in shards),
        largest_file=max((shard.size for shard in shards), default=0),
        dtypes=_dtypes(tensors),
        roles=_roles(tensors),
        norms=tuple(norm for _, norms in read for norm in norms),
        problems=(
            *layout.problems,
            *(problem for shard in shards for problem in shard.problems),
            *disagreements(layout.index, layout.weight_map, shards),
            *notes,
        ),
        model_type=said.model_type,
        text_model_type=said.text_model_type,
        config_dtype=said.dtype,
        quantized=_quantized(said, tensors),
        history=history.read_history(state),
        seconds=time.perf_counter() - began,
    )


def _read(folder: Folder, file: str, stage: Stage) -> tuple[Shard, list[Norm]]:
    with stage(f"read {shown(file)}"):
        try:
            with folder.open(file) as source:
                shard = read_shard(source, file)
                return shard, read_norms(source, shard)
        except Wrong as wrong:
            return unreadable(file, 0, wrong), []


def _json(
    folder: Folder, name: str, limit: int, stage: Stage, notes: list[Problem]
) -> dict[str, Any]:
    """A file beside the weights; {} where there is none, and a note where it cannot be read."""
    with stage(f"read {name}"):
        try:
            return read_json(folder, name, limit)
        except Wrong as wrong:
            if wrong.kind != "missing":
                notes.append(Problem(kind="note", file=name, text=wrong.text))
            return {}


def _sizes_only(path: str, layout: Layout, began: float) -> Checkpoint:
    sizes = [0]
    for file in layout.files:
        with contextlib.suppress(Wrong), layout.folder.open(file) as source:
            sizes.append(source.size)
    return Checkpoint(
        path=_text(path),
        layout=layout.kind,
        files=len(layout.files),
        tensors=0,
        parameters=0,
        bytes=sum(sizes),
        largest_file=max(sizes),
        problems=layout.problems,
        seconds=time.perf_counter() - began,
    )


def _dtypes(tensors: list[Tensor]) -> dict[str, int]:
    found: dict[str, int] = {}
    for tensor in tensors:
        found[tensor.dtype] = found.get(tensor.dtype, 0) + tensor.end - tensor.begin
    return found


def _roles(tensors: list[Tensor]) -> tuple[Role, ...]:
    found: dict[str, dict[str, int]] = {}
    for tensor in tensors:
        dtypes = found.setdefault(role(tensor.name), {})
        dtypes[tensor.dtype] = dtypes.get(tensor.dtype, 0) + 1
    kept = sorted(found.items(), key=lambda item: len(item[1]) < 2)[:MOST_ROLES]
    return tuple(Role(name=name[:500], dtypes=dtypes) for name, dtypes in kept)


def _quantized(said: Config, tensors: list[Tensor]) -> bool:
    return said.quantized or any(is_packed(tensor.name) for tensor in tensors)


def _text(path: str) -> str:
    """A path that may be no valid text, as text."""
    return os.fsencode(path).decode("utf-8", "replace")
