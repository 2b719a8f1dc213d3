"""A directory or a file of weights -> what checks ask of a checkpoint."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.analysis import optimizer
from doctor.checkpoint.analysis.tensor_names import is_packed, role
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, LocalDirectory, json_object, read_whole
from doctor.checkpoint.io.stages import Stage, no_stage
from doctor.checkpoint.io.urls import redact_url
from doctor.checkpoint.layouts import model_config as config
from doctor.checkpoint.layouts import trainer_state as history
from doctor.checkpoint.layouts.directory import find_layout
from doctor.checkpoint.layouts.layout import Layout
from doctor.checkpoint.layouts.model_config import Config
from doctor.checkpoint.layouts.shard_index import disagreements
from doctor.checkpoint.layouts.tokenizer import read_tokenizer
from doctor.checkpoint.reader import LayoutContents, one_state, read_layout
from doctor.checkpoint.records import Checkpoint, Optimizer, Problem, Role, Tokenizer
from doctor.checkpoint.tensors import Shard, Tensor, distinct

OnTensors = Callable[[Directory, Sequence[Shard]], None]
"""Hears the directory and what was read of its files: weights alone, in the order of the layout."""

MOST_ROLES = 5_000
"""Roles that are kept; those of mixed dtypes come first."""


MOST_NAMES = 1_000
"""Names of globals and of files that are kept."""

REMOTE_READS = 200
"""Reads of an optimizer's state where each is a request."""


def ignore_tensors(directory: Directory, shards: Sequence[Shard]) -> None:
    """Nobody wants the tensors themselves."""


def scan(
    path: str, stage: Stage = no_stage, on_tensors: OnTensors = ignore_tensors
) -> Checkpoint | Unknown:
    """Headers, norms, configuration and history. `stage` names the file that may not answer."""
    began = time.perf_counter()
    with stage(f"look at {shown(redact_url(path), 300)}"):
        layout = find_layout(path)
    if isinstance(layout, Unknown):
        return layout
    if any(problem.kind == "not-inspectable" for problem in layout.problems):
        return _sizes_only(path, layout, began)
    notes: list[Problem] = []
    said = config.read_config(_json(layout.directory, "config.json", config.LIMIT, stage, notes))
    state = _json(
        layout.directory, "trainer_state.json", history.LIMIT, stage, notes, history.read_state
    )
    contents = read_layout(layout, stage)
    shards = contents.shards
    on_tensors(layout.directory, shards)
    tensors = [tensor for shard in shards for tensor in shard.tensors]
    every = [*shards, *contents.others]
    counted = distinct(tensors) if contents.pickles else tensors
    roles = _by_role(tensors)
    walked = history.read_history(state)
    return Checkpoint(
        path=_text(path),
        layout=", ".join(filter(None, [*{shard.writer for shard in shards}, layout.kind])),
        files=len(shards),
        tensors=len(tensors),
        parameters=sum(tensor.elements for tensor in counted),
        bytes=sum(shard.size for shard in shards),
        largest_file=max((shard.size for shard in shards), default=0),
        dtypes=_dtypes(counted),
        roles=_roles(roles),
        norms=tuple(contents.norms),
        problems=(
            *layout.problems,
            *(problem for shard in every for problem in shard.problems),
            *disagreements(layout.index, layout.weight_map, shards),
            *notes,
        ),
        model_type=said.model_type,
        text_model_type=said.text_model_type,
        config_dtype=said.dtype,
        quantized=_quantized(said, roles),
        history=walked,
        optimizer=_optimizer(layout, contents, tensors, stage),
        born_at_one=tuple(contents.born_at_one),
        tokenizer=_tokenizer(layout, stage),
        imports=_names(shard.imports for shard in every),
        refused=_names(shard.refused for shard in every),
        pickles=contents.pickles,
        adapter=_adapter(layout, stage, notes),
        lone_shard=layout.lone_shard,
        step=walked.steps if walked else _step(every),
        beside=tuple(shown(name) for name in layout.beside[:MOST_NAMES]),
        seconds=time.perf_counter() - began,
    )


def _optimizer(
    layout: Layout, contents: LayoutContents, tensors: list[Tensor], stage: Stage
) -> Optimizer | Unknown | None:
    """What the saved state tells; Unknown where there are files of one that could not be read."""
    state = one_state([*contents.shards, *contents.others])
    if state is None:
        known = [problem for shard in contents.others for problem in shard.problems]
        return Unknown(reason=known[0].said) if known else None
    with stage(f"read {shown(state.file, 300)}"):
        reads = optimizer.READS if isinstance(layout.directory, LocalDirectory) else REMOTE_READS
        return optimizer.summarise(
            layout.directory,
            state,
            tensors,
            contents.norms,
            contents.ordered,
            min(reads, optimizer.READS),
        )


def _tokenizer(layout: Layout, stage: Stage) -> Tokenizer | None:
    with stage("read the tokenizer's files"):
        return read_tokenizer(layout.directory)


def _adapter(layout: Layout, stage: Stage, notes: list[Problem]) -> str | None:
    """peft_type of the configuration beside an adapter's weights."""
    if not layout.kind.endswith("PEFT adapter"):
        return None
    found = _json(layout.directory, "adapter_config.json", config.LIMIT, stage, notes)
    kind = found.get("peft_type")
    return shown(kind) if isinstance(kind, str) else None


def _names(found: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Each once, in the order in which they came."""
    names = dict.fromkeys(name for names in found for name in names)
    return tuple(shown(name, 200) for name in list(names)[:MOST_NAMES])


def _step(shards: list[Shard]) -> int | None:
    return next((shard.step for shard in shards if shard.step is not None), None)


def _json(
    directory: Directory,
    name: str,
    limit: int,
    stage: Stage,
    notes: list[Problem],
    parse: Callable[[bytes], dict[str, Any]] = json_object,
) -> dict[str, Any]:
    """A file beside the weights; {} where there is none, and a note where it cannot be read."""
    with stage(f"read {name}"):
        try:
            return parse(read_whole(directory, name, limit))
        except CheckpointError as error:
            if error.kind != "missing":
                notes.append(Problem(kind="note", file=name, text=error.text))
            return {}


def _sizes_only(path: str, layout: Layout, began: float) -> Checkpoint:
    sizes = [0]
    for file in layout.files:
        with contextlib.suppress(CheckpointError), layout.directory.open(file) as source:
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
    for _, dtype, _, _, _, begin, end, _, parts in tensors:
        size = sum(part.end - part.begin for part in parts) if parts else end - begin
        found[dtype] = found.get(dtype, 0) + size
    return found


def _by_role(tensors: list[Tensor]) -> dict[str, dict[str, int]]:
    """Role -> dtype -> tensors."""
    found: dict[str, dict[str, int]] = {}
    for tensor in tensors:
        name, dtype = role(tensor.name), tensor.dtype
        dtypes = found.get(name)
        if dtypes is None:
            found[name] = {dtype: 1}
        else:
            dtypes[dtype] = dtypes.get(dtype, 0) + 1
    return found


def _roles(found: dict[str, dict[str, int]]) -> tuple[Role, ...]:
    kept = sorted(found.items(), key=lambda item: len(item[1]) < 2)[:MOST_ROLES]
    return tuple(Role(name=name[:500], dtypes=dtypes) for name, dtypes in kept)


def _quantized(said: Config, roles: Iterable[str]) -> bool:
    return said.quantized or any(map(is_packed, roles))


def _text(path: str) -> str:
    """A path that may be no valid text, as text."""
    return os.fsencode(redact_url(path)).decode("utf-8", "replace")
