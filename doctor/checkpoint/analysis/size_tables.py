"""Sizes of single tensors beside the entries of config.json that decide them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from doctor.checkpoint.analysis.sizes import LLAMA_LIKE, OTHER_TOWER, named_sizes, parts_of
from doctor.checkpoint.records import Size
from doctor.checkpoint.tensors import Tensor


class Row(NamedTuple):
    """A dimension of the tensors of one name."""

    quantity: str
    name: re.Pattern[str]
    dimensions: int
    """That the tensor has."""
    dimension: int
    entries: tuple[str, ...]
    kinds: frozenset[str] = frozenset()
    """model_types that it is for; none: all."""


def _row(quantity: str, name: str, dimensions: int, dimension: int, *entries: str) -> Row:
    return Row(quantity, re.compile(rf"(?:.*\.)?{name}"), dimensions, dimension, entries)


CONV1D = frozenset({"gpt2", "openai-gpt", "imagegpt", "decision_transformer"})
"""Families whose matrices are (in, out); gpt_bigcode has their names and is (out, in)."""
INPUTS = "inputs of Conv1D"
PATCH = r"(?:patch_embeddings\.projection|patch_embedding|patch_embed\.proj)\.weight"
ROUTER = r"(?:block_sparse_moe|mlp|moe|feed_forward)\.(?:gate|router)\.weight"

ROWS = (
    _row("intermediate size", r"intermediate\.dense\.weight", 2, 0, "intermediate_size"),
    _row("intermediate size", r"h\.\d+\.mlp\.c_fc\.weight", 2, 1, "n_inner")._replace(kinds=CONV1D),
    _row(INPUTS, r"h\.\d+\.attn\.c_attn\.weight", 2, 0, "n_embd")._replace(kinds=CONV1D),
    _row(INPUTS, r"h\.\d+\.mlp\.c_fc\.weight", 2, 0, "n_embd")._replace(kinds=CONV1D),
    _row("intermediate size", r"DenseReluDense\.wi(?:_0)?\.weight", 2, 0, "d_ff"),
    _row("token types", r"token_type_embeddings\.weight", 2, 0, "type_vocab_size"),
    _row("buckets", r"relative_attention_bias\.weight", 2, 0, "relative_attention_num_buckets"),
    _row("bands of the spectrum", r"encoder\.conv1\.weight", 3, 1, "num_mel_bins"),
    _row("experts", ROUTER, 2, 0, "num_experts", "num_local_experts")._replace(kinds=LLAMA_LIKE),
    _row("patch size", PATCH, 4, 3, "patch_size"),
    _row("image channels", PATCH, 4, 1, "num_channels", "in_channels", "in_chans"),
    _row("projection size", r"(?:visual|text)_projection\.weight", 2, 0, "projection_dim"),
    _row("states", r"mixer\.A_log", 2, 1, "state_size"),
    _row("cross-attention size", r"attn2\.to_k\.weight", 2, 1, "cross_attention_dim"),
)  # fmt: skip

UNET = (
    _row("input channels", r"conv_in\.weight", 4, 1, "in_channels"),
    _row("output channels", r"conv_out\.weight", 4, 0, "out_channels"),
)
"""Of diffusers' models; others call what is theirs so, too."""

POSITIONS = re.compile(r"(?:.*\.)?(?:wpe|position_embeddings|embed_positions)\.weight")
POSITION_ENTRIES = ("max_position_embeddings", "n_positions")
OFFSETS = (0, 2)
"""Rows that some families (OPT, BART) have beyond their positions."""

PATCH_POSITIONS = re.compile(
    r"(?:.*\.)?(?:embeddings\.position_embeddings|position_embedding\.weight|pos_embed)"
)
TAKES_PATCHES = re.compile(
    r"(?:vit|deit|vit_mae|vit_msn|ijepa|clip|siglip|dinov2|blip|chinese_clip)(?:_vision_model)?"
)
"""model_types with a position for each patch of an image of the configured size."""
SPECIAL = (0, 1, 2)
"""Positions of the class and of distillation."""

LABELS = re.compile(r"(?:classifier|score)(?:\.out_proj)?\.weight")
LABELLED = re.compile(r"\w+For(?:Sequence|Token|Image)Classification")
FEWEST_LABELS = 2
"""num_labels where config.json names neither labels nor their number."""


def table_sizes(config: Mapping[str, object], tensors: Sequence[Tensor]) -> Iterator[Size]:
    """None of a model with code of its own."""
    if "auto_map" in config:
        return
    parts = parts_of(config)
    rows = ROWS if config.get("model_type") else (*ROWS, *UNET)
    if not config.get("model_type") and "_class_name" not in config:
        return
    for row in (each for each in rows if not each.kinds or config.get("model_type") in each.kinds):
        lengths = {
            tensor.shape[row.dimension]: tensor
            for tensor in tensors
            if len(tensor.shape) == row.dimensions and row.name.fullmatch(tensor.name)
        }
        if len(lengths) > 1 and row.quantity != INPUTS:
            continue  # towers of several sizes: which is whose does not show
        for stored, tensor in lengths.items():
            yield from named_sizes(parts, row.quantity, row.entries, tensor, stored)
    yield from _positions(config, tensors)
    yield from _patches(parts, tensors)
    yield from _labels(config, tensors)


def _positions(config: Mapping[str, object], tensors: Sequence[Tensor]) -> Iterator[Size]:
    rows = [each for each in tensors if len(each.shape) == 2 and POSITIONS.fullmatch(each.name)]
    if len(rows) == 1 and not OTHER_TOWER.search(rows[0].name):
        for size in named_sizes([config], "positions", POSITION_ENTRIES, rows[0], rows[0].shape[0]):
            configured = tuple(n + more for n in size.configured for more in OFFSETS)
            yield msgspec.structs.replace(size, configured=configured)


def _patches(parts: Sequence[Mapping[str, object]], tensors: Sequence[Tensor]) -> Iterator[Size]:
    """Positions of an image's patches."""
    kind = str(parts[0].get("model_type"))
    for part in parts:
        image, patch = part.get("image_size"), part.get("patch_size")
        known = TAKES_PATCHES.fullmatch(str(part.get("model_type", kind)))
        if not (known and type(image) is int and type(patch) is int and patch > 0):
            continue
        found = [each for each in tensors if PATCH_POSITIONS.fullmatch(each.name)]
        if len(found) != 1 or len(found[0].shape) not in (2, 3):
            continue
        stored = found[0].shape[-2]
        sides = [math.isqrt(stored - more) for more in SPECIAL if stored > more]
        fitting = next((s for s in sides if s * s in {stored - more for more in SPECIAL}), None)
        yield Size(
            quantity="positions of patches",
            configured=tuple((image // patch) ** 2 + more for more in SPECIAL),
            stored=stored,
            tensor=found[0].name[:500],
            entry="image_size",
            fitting=None if fitting is None else fitting * patch,
        )


def _labels(config: Mapping[str, object], tensors: Sequence[Tensor]) -> Iterator[Size]:
    names = config.get("architectures")
    task = names[0] if isinstance(names, list) and len(names) == 1 else None
    found = [each for each in tensors if len(each.shape) == 2 and LABELS.fullmatch(each.name)]
    if isinstance(task, str) and LABELLED.fullmatch(task) and len(found) == 1:
        labels, given = config.get("id2label"), config.get("num_labels")
        count = len(labels) if isinstance(labels, dict) else given
        yield Size(
            quantity="labels",
            configured=(count if type(count) is int else FEWEST_LABELS,),
            stored=found[0].shape[0],
            tensor=found[0].name[:500],
            entry="id2label",
            absent=count is None,
        )
