"""A path or an address of weights -> the record that checks judge."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence

import msgspec

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.agreement import compare_with_config, one_of_several
from doctor.checkpoint.analysis import optimizer
from doctor.checkpoint.analysis.adapters import fit_lora
from doctor.checkpoint.analysis.batch_statistics import read_statistics
from doctor.checkpoint.analysis.fit import fit_optimizer
from doctor.checkpoint.analysis.named_sizes import without_dimension
from doctor.checkpoint.analysis.tensor_names import is_packed
from doctor.checkpoint.analysis.totals import (
    Totals,
    bytes_by_dtype,
    count,
    files_by_dtype,
    listed_roles,
    shares,
)
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_files import read_tree, with_inventory
from doctor.checkpoint.io.files import Directory, LocalDirectory, json_object, read_whole
from doctor.checkpoint.io.stages import Stage, no_stage
from doctor.checkpoint.io.urls import redact_url
from doctor.checkpoint.layouts import model_config, trainer_state
from doctor.checkpoint.layouts.directory import find_layout
from doctor.checkpoint.layouts.layout import Layout
from doctor.checkpoint.layouts.own_code import read_own_code
from doctor.checkpoint.layouts.tokenizer import read_tokenizer
from doctor.checkpoint.loading import MOST_NAMES, describe_loading
from doctor.checkpoint.pickle.nodes import gc_paused
from doctor.checkpoint.problems import problems_of
from doctor.checkpoint.reader import LayoutContents, read_beside, read_layout
from doctor.checkpoint.records import (
    BatchStatistics,
    Checkpoint,
    Contents,
    Files,
    ModelConfig,
    Optimizer,
    Problem,
    Tokenizer,
    Training,
)
from doctor.checkpoint.tensors import Shard, Tensor, distinct, join_states

OnTensors = Callable[[Directory, LayoutContents], None]
"""Called with the directory and what its files hold, the shards in the order of the layout."""
SCALER = "scaler.pt"
REMOTE_READS = 200
"""Reads of an optimizer's state where each is a request."""


def ignore_tensors(directory: Directory, contents: LayoutContents) -> None:
    """An OnTensors that does nothing."""


@gc_paused()
def scan(
    path: str, stage: Stage = no_stage, on_tensors: OnTensors = ignore_tensors
) -> Checkpoint | Unknown:
    """Headers, norms, configuration and history. `stage` names each file before it is read.

    Unknown where no weights are at `path`.
    """
    began = time.perf_counter()
    with stage(f"look at {shown(redact_url(path), 300)}"):
        layout = find_layout(path)
    if isinstance(layout, Unknown):
        return layout
    if any(problem.kind == "not-inspectable" for problem in layout.problems):
        return _sizes_only(path, layout, stage, began)
    notes: list[Problem] = []
    read_json = _JsonReader(layout.directory, stage, notes)
    configured = read_json("config.json", model_config.LIMIT)
    state = read_json("trainer_state.json", trainer_state.LIMIT, trainer_state.read_state)
    contents = read_layout(layout, stage)
    shards = contents.shards
    on_tensors(layout.directory, contents)
    tensors = [tensor for shard in shards for tensor in shard.tensors]
    counted = count(tensors)
    adapter = _adapter_config(layout, read_json)
    return Checkpoint(
        path=_valid_text(path),
        layout=", ".join(filter(None, [*{shard.writer for shard in shards}, layout.kind])),
        files=_files(layout, shards, tensors),
        contents=_contents(layout, contents, tensors, counted),
        model=_model(layout, contents, configured, adapter, notes, counted),
        lora=fit_lora(adapter, tensors, layout.directory) if adapter else None,
        training=_training(layout, contents, tensors, state, stage),
        loading=describe_loading(
            contents,
            read_own_code(
                layout.directory,
                configured,
                [(shard.file, shard.template) for shard in shards if shard.template],
            ),
        ),
        tokenizer=_tokenizer(layout, stage),
        problems=(*problems_of(layout, contents, tensors, bool(configured)), *notes),
        seconds=time.perf_counter() - began,
    )


def _model(
    layout: Layout,
    contents: LayoutContents,
    configured: dict[str, object],
    adapter: dict[str, object],
    notes: list[Problem],
    counted: Totals,
) -> ModelConfig:
    """What config.json, the names of the tensors and the files themselves say of the model."""
    config, shards = model_config.read_config(configured), contents.shards
    tensors = [tensor for shard in shards for tensor in shard.tensors]
    return msgspec.structs.replace(
        config,
        quantized=config.quantized or any(is_packed(name) for name, *_ in counted),
        adapter=_adapter(adapter),
        unreadable=next((note.text for note in notes if note.file == "config.json"), ""),
        **({} if configured else _described_by(shards)),
        **({} if configured else without_dimension(shards)),
        **compare_with_config(layout, configured or _header(shards), contents, tensors),
    )


class _JsonReader:
    """Reads JSON files beside the weights; a file that cannot be read becomes a note."""

    def __init__(self, directory: Directory, stage: Stage, notes: list[Problem]) -> None:
        self.directory, self.stage, self.notes = directory, stage, notes

    def __call__(
        self, name: str, limit: int, parse: Callable[[bytes], dict[str, object]] = json_object
    ) -> dict[str, object]:
        """The object in the file; {} where it is missing or cannot be read."""
        with self.stage(f"read {name}"):
            try:
                return parse(read_whole(self.directory, name, limit))
            except CheckpointError as error:
                if error.kind != "missing":
                    self.notes.append(Problem(kind="note", file=name, text=error.text))
                return {}


def _files(layout: Layout, shards: Sequence[Shard], tensors: list[Tensor]) -> Files:
    return Files(
        count=len(shards),
        bytes=sum(shard.size for shard in shards),
        largest=max((shard.size for shard in shards), default=0),
        others=tuple(shown(name) for name in layout.beside[:MOST_NAMES]),
        by_dtype=files_by_dtype(tensors),
        lone_shard=layout.lone_shard,
    )


def _contents(
    layout: Layout, contents: LayoutContents, tensors: list[Tensor], counted: Totals
) -> Contents:
    stored = count(distinct(tensors)) if contents.pickles else counted
    return Contents(
        tensors=len(tensors),
        parameters=sum(total.parameters for total in stored.values()),
        dtypes=bytes_by_dtype(stored),
        roles=listed_roles(counted),
        shares=shares(stored),
        statistics=_statistics(layout, contents, tensors),
        norms=tuple(contents.norms),
        initialized_to_one=tuple(contents.initialized_to_one),
    )


def _statistics(
    layout: Layout, contents: LayoutContents, tensors: list[Tensor]
) -> tuple[BatchStatistics, ...]:
    """Read on this machine only: each is a request elsewhere."""
    if not isinstance(layout.directory, LocalDirectory):
        return ()
    further = [tensor for shard in contents.all_shards for tensor in shard.further]
    return read_statistics(layout.directory, tensors, further)


def _training(
    layout: Layout,
    contents: LayoutContents,
    tensors: list[Tensor],
    state: dict[str, object],
    stage: Stage,
) -> Training:
    history = trainer_state.read_history(state)
    steps = (shard.step for shard in contents.all_shards if shard.step is not None)
    return Training(
        steps=history.steps if history else next(steps, None),
        epoch=max((shard.epoch for shard in contents.all_shards), default=0),
        history=history,
        idle_averages=tuple(n for shard in contents.shards for n in shard.idle_averages),
        scale=_scale(layout, contents, stage),
        optimizer=_optimizer(layout, contents, tensors, stage),
    )


def _scale(layout: Layout, contents: LayoutContents, stage: Stage) -> float | None:
    """The GradScaler's, in a file of the weights or in one beside them on this machine."""
    scales = [shard.scale for shard in contents.all_shards if shard.scale is not None]
    if scales or SCALER not in layout.beside or not isinstance(layout.directory, LocalDirectory):
        return scales[0] if scales else None
    with (
        stage(f"read {SCALER}"),
        contextlib.suppress(CheckpointError),
        layout.directory.open(SCALER) as source,
    ):
        return read_tree(source, SCALER).scale()
    return None


def _optimizer(
    layout: Layout, contents: LayoutContents, tensors: list[Tensor], stage: Stage
) -> Optimizer | Unknown | None:
    """The saved state; None where there is none, Unknown where its files could not be read."""
    state = join_states(shard.optimizer for shard in contents.all_shards)
    if state is None:
        problems = [problem for shard in contents.others for problem in shard.problems]
        return Unknown(reason=problems[0].message) if problems else None
    with stage(f"read {shown(state.file, 300)}"):
        local = isinstance(layout.directory, LocalDirectory)
        summary = optimizer.summarize(
            layout.directory,
            state,
            tensors,
            contents.norms,
            contents.ordered,
            optimizer.READS if local else min(REMOTE_READS, optimizer.READS),
        )
    if not contents.shards or layout.lone_shard or one_of_several(layout) or _by_ranks(layout):
        return summary
    further = [tensor for shard in contents.all_shards for tensor in shard.further]
    return msgspec.structs.replace(summary, fit=fit_optimizer(state, [*tensors, *further]))


def _by_ranks(layout: Layout) -> bool:
    """Whether the weights or the state lie in parts that have shapes of their own."""
    return any(group.reader != "dcp" for group in layout.groups)


def _tokenizer(layout: Layout, stage: Stage) -> Tokenizer | None:
    with stage("read the tokenizer's files"):
        return read_tokenizer(layout.directory)


def _header(shards: Sequence[Shard]) -> dict[str, object]:
    """The model as the first file that describes it does."""
    return next((shard.config for shard in shards if shard.config), {})


def _described_by(shards: Sequence[Shard]) -> dict[str, object]:
    """Fields of ModelConfig, where no config.json but a file of the weights describes it."""
    named = model_config.token_ids(config := _header(shards))
    ids = {key: max(numbers) for key, numbers in named.items()}
    return {"source": "the header of the GGUF file", "token_ids": ids} if config else {}


def _adapter_config(layout: Layout, read_json: _JsonReader) -> dict[str, object]:
    """The configuration beside an adapter's weights; {} where they are none."""
    if not layout.kind.endswith("PEFT adapter"):
        return {}
    return read_json("adapter_config.json", model_config.LIMIT)


def _adapter(config: dict[str, object]) -> str | None:
    kind = config.get("peft_type")
    return shown(kind) if isinstance(kind, str) else None


def _sizes_only(path: str, layout: Layout, stage: Stage, began: float) -> Checkpoint:
    """A format that is known by name only: its sizes, and what its pickles import."""
    sizes = [0]
    contents = LayoutContents()
    for file in layout.files:
        with contextlib.suppress(CheckpointError), layout.directory.open(file) as source:
            sizes.append(source.size)
            shard = Shard(file, source.size, readable=False)
            contents.shards.append(with_inventory(shard, source))
    contents.pickles = sum(shard.pickled for shard in contents.shards)
    contents.beside += read_beside(layout, stage, set(layout.files))
    return Checkpoint(
        path=_valid_text(path),
        layout=layout.kind,
        files=Files(count=len(layout.files), bytes=sum(sizes), largest=max(sizes)),
        loading=describe_loading(contents),
        problems=layout.problems,
        seconds=time.perf_counter() - began,
    )


def _valid_text(path: str) -> str:
    """A path that may not be valid UTF-8, redacted, as text."""
    return os.fsencode(redact_url(path)).decode("utf-8", "replace")
