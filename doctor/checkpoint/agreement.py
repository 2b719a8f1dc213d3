"""Fields of ModelConfig: what config.json says beside what the tensors are."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checkpoint.analysis.heads import lacks_head, separate_head, task_without_head
from doctor.checkpoint.analysis.quantization import describe_quantization, quantized_sizes
from doctor.checkpoint.analysis.size_tables import table_sizes
from doctor.checkpoint.analysis.sizes import compare_sizes, embeddings
from doctor.checkpoint.analysis.structure import ignored, missing
from doctor.checkpoint.analysis.wrappers import (
    is_causal,
    partly_wrapped,
    whole_of_peft,
    wrapper_of,
)
from doctor.checkpoint.formats.gguf_config import lacks_embedding
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.layouts.layout import Layout
from doctor.checkpoint.layouts.shard_index import SPLIT
from doctor.checkpoint.reader import LayoutContents
from doctor.checkpoint.tensors import Tensor

FEW = 10


def compare_with_config(
    layout: Layout, config: dict[str, object], contents: LayoutContents, tensors: list[Tensor]
) -> dict[str, object]:
    """Fields of ModelConfig about the tensors, where all of the model's are in the files."""
    readable = all(shard.readable for shard in contents.shards)
    whole = not (layout.lone_shard or layout.groups or one_of_several(layout)) and readable
    if not whole or any(SPLIT in shard.metadata for shard in contents.shards):
        return {}
    embedded = embeddings(tensors)
    rows = max((tensor.shape[0] for tensor in embedded), default=None)
    local = isinstance(layout.directory, LocalDirectory)
    if not config or layout.kind.endswith("PEFT adapter"):
        fields = _undescribed(layout, tensors) if local and not config else {}
        fields = fields if is_library(contents) else {}
        empty = [each for each in tensors if each.shape == (0,) and each.name.endswith(PARAMETER)]
        count = len(empty) if not config else 0  # an observer's range may be empty, too
        return {"embedding_rows": rows, "empty_tensors": count, **fields, **_partly(tensors)}
    sizes = compare_sizes(config, tensors, embedded)
    return {
        "embedding_rows": rows,
        "sizes": (*sizes, *table_sizes(config, tensors), *quantized_sizes(config, tensors)),
        "head_missing": lacks_head(config, tensors, embedded),
        "task_without_head": task_without_head(config, tensors),
        "separate_head": separate_head(config, tensors, embedded, layout.directory)
        if local
        else "",
        "lacks_embedding": lacks_embedding(config, {tensor.name for tensor in tensors}),
        "empty_tensors": sum(0 in tensor.shape for tensor in tensors),
        **_partly(tensors),
        **(_of_library(layout, config, tensors) if is_library(contents) else {}),
    }


PARAMETER = ("weight", "bias")


def _undescribed(layout: Layout, tensors: list[Tensor]) -> dict[str, object]:
    """Fields of files of from_pretrained's names without a config.json. save_pretrained alone
    writes generation_config.json; a Trainer of a module of one's own writes neither."""
    if layout.kind.endswith("PEFT adapter"):
        return {}
    beside = layout.directory
    described = beside.exists("tokenizer_config.json") and is_causal(tensors)
    inside = 0 if beside.exists("adapter_config.json") else whole_of_peft(tensors)
    return {
        "lacks_config": described or beside.exists("generation_config.json"),
        "wrapper": "base_model.model." if inside else "",
        "wrapped": inside,
    }


def _partly(tensors: list[Tensor]) -> dict[str, object]:
    lead, count, example = partly_wrapped(tensors)
    return {"partly": lead, "partly_wrapped": count, "partly_example": shown(example, 200)}


def _of_library(
    layout: Layout, config: dict[str, object], tensors: list[Tensor]
) -> dict[str, object]:
    """Fields about the names that from_pretrained looks for."""
    if not config.get("model_type"):
        return {}
    wrapper, wrapped = wrapper_of(config, tensors)
    beside = layout.directory.names() if isinstance(layout.directory, LocalDirectory) else ()
    fields = {
        "wrapper": wrapper,
        "wrapped": wrapped,
        "quantization": describe_quantization(config, tensors, beside),
    }
    if wrapper:
        return fields
    absent, extra = missing(config, tensors), ignored(config, tensors)
    return fields | {
        "missing": tuple(shown(name, 200) for name in absent[:FEW]),
        "missing_count": len(absent),
        "ignored": tuple(shown(name, 200) for name in extra[:FEW]),
        "ignored_count": len(extra),
    }


def is_library(contents: LayoutContents) -> bool:
    """Whether from_pretrained reads these files, by their names."""
    return all(shard.file.startswith(("model", "pytorch_model")) for shard in contents.shards)


def one_of_several(layout: Layout) -> bool:
    """Whether the directory has further files of weights, which were not read."""
    return any("that was read; name another" in problem.text for problem in layout.problems)
