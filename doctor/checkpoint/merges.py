"""Models beside each other, from their paths to a record: a merge, or two that should be equal."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

import msgspec

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.analysis.equivalence import compare_models
from doctor.checkpoint.analysis.merging.adapter import Adapter, read_adapter
from doctor.checkpoint.analysis.merging.merge import examine_merge
from doctor.checkpoint.analysis.merging.names import Model, NameIndex
from doctor.checkpoint.collected import ProgressThrottle, TensorCollector, counted_stages, unread
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, LocalDirectory, read_json
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.io.urls import redact_url
from doctor.checkpoint.layouts import model_config
from doctor.checkpoint.layouts.vocabulary import compare_tokenizers
from doctor.checkpoint.records import Equality, Merge
from doctor.checkpoint.scan import scan


@dataclass(frozen=True, slots=True)
class ModelPaths:
    """What the user named."""

    model: str
    base: str | None
    """None: the model is no merge, and the adapters are only compared with it."""
    adapters: tuple[tuple[str, float], ...]


def read_merge(
    paths: ModelPaths,
    current: TensorCollector,
    stage: Stage,
    progress: ProgressThrottle,
    *,
    every: bool,
) -> Merge | Unknown:
    """The comparison. Unknown where one of the paths holds no tensors on this machine."""
    model = _model(current, paths.model)
    base = _scanned(paths.base, stage, progress) if paths.base else model
    adapters = [_adapter(*each, stage, progress) for each in paths.adapters]
    for one in (model, base, *adapters):
        if isinstance(one, Unknown):
            return one
    assert isinstance(model, Model)
    assert isinstance(base, Model)

    def report(done: int, total: int) -> None:
        progress("compare with the base", done, total, "tensors")

    used = [adapter for adapter in adapters if isinstance(adapter, Adapter)]
    with stage("compare with the base"):
        merge = examine_merge(
            model if paths.base else None,
            base,
            used,
            base_path=redact_url(paths.base or paths.model),
            every=every,
            progress=report,
        )
    name, revision = origin_of(base.directory)
    merge = msgspec.structs.replace(merge, base_name=name, base_revision=revision)
    if not paths.base:
        return merge
    origins = [*((each.directory, each.path) for each in used), (base.directory, merge.base)]
    compared = (compare_tokenizers(model.directory, *origin) for origin in origins)
    tokenizer = next((each for each in compared if each is not None), None)
    return msgspec.structs.replace(merge, tokenizer=tokenizer)


CACHED = re.compile(r"/models--([\w.-]+?)--([\w.-]+)/snapshots/([0-9a-f]{40})(?:/|$)")
"""A model's directory in the Hub's cache."""


def origin_of(directory: Directory) -> tuple[str, str]:
    """The name of a model on the Hub, and its commit; "" for what the files do not state."""
    if isinstance(directory, LocalDirectory) and (
        match := CACHED.search(f"{directory.path.resolve()}/")
    ):
        return f"{match[1]}/{match[2]}", match[3]
    with contextlib.suppress(CheckpointError):
        name = read_json(directory, "config.json", model_config.LIMIT).get("_name_or_path")
        return (shown(name, 200), "") if isinstance(name, str) else ("", "")
    return "", ""


def read_equality(
    path: str, current: TensorCollector, other: str, stage: Stage, progress: ProgressThrottle
) -> Equality | Unknown:
    """Unknown where one of the paths holds no tensors on this machine."""
    one, another = _model(current, path), _scanned(other, stage, progress)
    for each in (one, another):
        if isinstance(each, Unknown):
            return each
    assert isinstance(one, Model)
    assert isinstance(another, Model)

    def report(done: int, total: int) -> None:
        progress("compare both", done, total, "tensors")

    with stage("compare both"):
        found = compare_models(one, another, other_path=redact_url(other), progress=report)
    tokenizer = compare_tokenizers(one.directory, another.directory, found.other)
    return msgspec.structs.replace(found, tokenizer=tokenizer)


def _model(found: TensorCollector, path: str) -> Model | Unknown:
    if not isinstance(found.directory, LocalDirectory):
        text = "is not on this machine: comparing its values would download them"
        return Unknown(reason=f"{shown(redact_url(path), 300)} {text}")
    return Model(found.directory, NameIndex(found.tensors))


def _scanned(path: str, stage: Stage, progress: ProgressThrottle) -> Model | Unknown:
    found = TensorCollector()
    checkpoint = scan(path, counted_stages(stage, progress), found.collect)
    if isinstance(checkpoint, Unknown):
        return checkpoint
    if found.directory is None or not found.shards:
        return Unknown(reason=f"{shown(redact_url(path), 300)}: {unread(checkpoint).reason}")
    return _model(found, path)


def _adapter(
    path: str, weight: float, stage: Stage, progress: ProgressThrottle
) -> Adapter | Unknown:
    model = _scanned(path, stage, progress)
    if isinstance(model, Unknown):
        return model
    name = shown(redact_url(path), 300)
    with stage("read adapter_config.json"):
        try:
            config = read_json(model.directory, "adapter_config.json", model_config.LIMIT)
        except CheckpointError as error:
            return Unknown(reason=f"{name}: adapter_config.json {error.text}")
    tensors = list(model.index.tensors.values())
    try:
        return read_adapter(redact_url(path), model.directory, config, tensors, weight)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # an untrusted configuration says nothing of the model that is named beside it
        return Unknown(reason=f"{name}: the adapter could not be read: {shown(str(error), 200)}")
