"""Weights in a second format beside those that libraries load first."""

from __future__ import annotations

import re

from doctor._util.units import shown
from doctor.checkpoint.analysis.equivalence import compare_models
from doctor.checkpoint.analysis.merging.names import Model, NameIndex
from doctor.checkpoint.collected import TensorCollector
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.records import SecondWeights
from doctor.checkpoint.scan import scan

SECOND = re.compile(r"(?:(?:diffusion_)?pytorch_model(?:-\d{5}-of-\d{5})?|adapter_model)\.bin")
"""transformers, peft and diffusers load them only where no safetensors are there."""


def compare_second(
    current: TensorCollector, stage: Stage, most: int | None = None
) -> SecondWeights | None:
    """Beside safetensors that were read; None where no others are there, they cannot be read, or
    both have more bytes than `most`."""
    directory = current.directory
    if not isinstance(directory, LocalDirectory):
        return None
    if not all(shard.file.endswith(".safetensors") for shard in current.shards):
        return None
    try:
        names = [name for name in directory.names() if SECOND.fullmatch(name)]
    except CheckpointError:
        return None
    found = [TensorCollector() for _ in names]
    for name, collector in zip(names, found, strict=True):
        scan(str(directory.path / name), stage, collector.collect)
    tensors = [tensor for collector in found for tensor in collector.tensors]
    size = sum(tensor.stored_bytes for tensor in (*tensors, *current.tensors))
    if not tensors or (most is not None and size > most):
        return None
    models = (Model(directory, NameIndex(each)) for each in (current.tensors, tensors))
    compared = compare_models(*models, other_path="")
    first = next((each.name for each in compared.differing), "")
    return SecondWeights(
        file=shown(names[0], 200),
        compared=compared.compared,
        differing=compared.differing_count + compared.reshaped_count,
        first=first or next(iter(compared.reshaped), ""),
    )
