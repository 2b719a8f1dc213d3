"""Quantized weights: whether their scales are there, and whether they are as config.json says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from doctor._util.units import shown
from doctor.checkpoint.records import Quantization, Size
from doctor.checkpoint.tensors import Tensor

FEW = 10

FP8 = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")


class Form(NamedTuple):
    """How a quantizer keeps a weight: the end of its name, its dtypes and one of its scales."""

    end: str
    dtypes: tuple[str, ...]
    scales: tuple[str, ...]


FORMS = (
    Form(".qweight", ("I32", "U32", "I16"), (".scales",)),
    Form(".qweight", ("I32", "U32", "I16"), (".qzeros", ".zeros", ".scaled_zeros")),
    Form(".weight_packed", (), (".weight_scale",)),
    Form("_blocks", ("U8",), ("_scales",)),
    Form(".weight", FP8, (".weight_scale_inv", ".weight_scale", ".scale_weight", ".scale")),
    Form(".weight", ("I8",), (".SCB", ".weight_scale", ".weight_format")),
    Form(".weight", ("U8",), (".weight.absmax", ".weight_scale")),
)
"""GPTQ and AWQ, compressed-tensors, mxfp4, fp8, int8 and four bits of bitsandbytes, NVFP4."""

WITH_SCALES = frozenset(
    ("gptq", "awq", "fp8", "fbgemm_fp8", "compressed-tensors", "modelopt", "bitsandbytes", "mxfp4")
)
"""quant_method of loaders that find the scales under these names."""

DESCRIPTIONS = {"quantize_config.json", "quant_config.json", "hf_quant_config.json", "qconfig.json"}
"""Files of quantizers beside config.json."""


def describe_quantization(
    config: Mapping[str, object], tensors: Sequence[Tensor], beside: Collection[str]
) -> Quantization | None:
    """`beside`: the names of the directory. None: no weight is quantized, and none should be."""
    declared = declaration(config)
    named = {tensor.name for tensor in tensors}
    packed: dict[str, bool] = {}
    for tensor, form in _packed(tensors):
        owner = tensor.name.removesuffix(form.end)
        scaled = any(owner + scale in named for scale in form.scales)
        packed[tensor.name] = packed.get(tensor.name, True) and scaled
    if not packed and not declared:
        return None
    method = declared.get("quant_method")
    method = shown(method, 40) if isinstance(method, str) else ""
    without = [name for name, scaled in packed.items() if not scaled]
    if method not in WITH_SCALES and len(without) == len(packed) and not _four_bits(tensors):
        packed, without = {}, []  # a plain cast, or scales under names of one's own
    return Quantization(
        method=method,
        described=bool(declared) or not DESCRIPTIONS.isdisjoint(beside),
        packed=len(packed),
        example=next(iter(packed), "")[:500],
        unscaled=tuple(shown(name, 200) for name in without[:FEW]),
        unscaled_count=len(without),
    )


def _four_bits(tensors: Sequence[Tensor]) -> bool:
    """Whether a weight is a column of bytes, which nothing but bitsandbytes makes of a matrix."""
    return any(
        t.dtype == "U8" and t.shape[1:] == (1,) and t.name.endswith(".weight") for t in tensors
    )


def declaration(config: Mapping[str, object]) -> dict[str, object]:
    """The part of config.json, or of its text model, about the quantization; {} for none."""
    inner = config.get("text_config")
    for part in (config, inner if isinstance(inner, dict) else {}):
        for key in ("quantization_config", "compression_config"):
            if isinstance(found := part.get(key), dict):
                return found
    return {}


def _packed(tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, Form]]:
    for tensor in tensors:
        for form in FORMS:
            fits = tensor.dtype in form.dtypes or not form.dtypes
            if fits and tensor.name.endswith(form.end) and len(tensor.shape) > 1:
                yield tensor, form


def quantized_sizes(config: Mapping[str, object], tensors: Sequence[Tensor]) -> Iterator[Size]:
    """Bits and size of groups of GPTQ and AWQ, and the blocks of fp8, by the first such weight."""
    declared = declaration(config)
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    for name, shape in shapes.items():
        owner = name.removesuffix(".qweight")
        zeros, scales = (shapes.get(f"{owner}.{each}", ()) for each in ("qzeros", "scales"))
        if owner != name and len(shape) == len(scales) == len(zeros) == 2:
            yield from _of_groups(declared, name, shape, zeros[1], scales)
            return
        blocks = shapes.get(f"{name}_scale_inv", ())
        if len(shape) == len(blocks) == 2:
            yield from _of_blocks(declared, name, shape, blocks)
            return


def _of_groups(
    declared: Mapping[str, object],
    name: str,
    shape: tuple[int, ...],
    zeros: int,
    scales: tuple[int, ...],
) -> Iterator[Size]:
    """Zero points are packed like AWQ's weights, along the outputs; GPTQ's along the inputs."""
    groups, outputs = scales
    bits = zeros * 32 // outputs if outputs else 0
    if not (groups and bits):
        return
    inputs = shape[0] if declared.get("quant_method") == "awq" else shape[0] * 32 // bits
    if given := _given(declared, "bits", "w_bit"):
        yield _size("bits", given, bits, name, "bits")
    if given := _given(declared, "group_size", "q_group_size"):
        fits = -(-inputs // given) == groups  # the last group may be shorter
        yield _size("group size", given, given if fits else inputs // groups, name, "group_size")


def _given(declared: Mapping[str, object], *entries: str) -> int:
    """A positive number of the configuration, else 0."""
    return next((n for key in entries if type(n := declared.get(key)) is int and n > 0), 0)


def _of_blocks(
    declared: Mapping[str, object], name: str, shape: tuple[int, ...], blocks: tuple[int, ...]
) -> Iterator[Size]:
    given = declared.get("weight_block_size")
    lengths = given if isinstance(given, list) and len(given) == 2 else ()
    for length, whole, count in zip(lengths, shape, blocks, strict=False):
        if type(length) is int and length > 0:
            needed = -(-whole // length)
            yield _size("blocks with a scale", needed, count, f"{name}_scale_inv", "")


def _size(quantity: str, configured: int, stored: int, name: str, entry: str) -> Size:
    return Size(
        quantity=quantity,
        configured=(configured,),
        stored=stored,
        tensor=name[:500],
        entry=entry,
        fitting=stored if entry else None,
    )
