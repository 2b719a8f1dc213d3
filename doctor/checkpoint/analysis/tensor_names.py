"""Roles and norms, recognized in the untrusted names of tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from doctor.checkpoint.records import Kind
from doctor.checkpoint.tensors import Tensor

NORM_DTYPES = ("BF16", "F16", "F32", "F64")

_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")
_INNER = re.compile(r"\.[0-9]+(?=[.\n])")
"""The same in lines but for one at the beginning; much faster."""

_WEIGHT = re.compile(r"(?:weight|scale|gamma|g|.*norm_(?:weight|scale|gamma))")
_NUMBERED = re.compile(r"((?:.*\.)?\d+)\.weight")
_NORM = re.compile(r"norm|layrnorm|rms|(?:^|_)ln(?:_|\d|$)|(?:^|_)bn\d*(?:_|$)")

_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "attention",
        re.compile(
            r"attn|attention|(?:^|\.)(?:[qkvo]_proj|qkv|qkv_proj|wqkv|w[qkvo]|query_key_value|att)"
            r"(?:\.|$)"
        ),
    ),
    (
        "MLP",
        re.compile(
            r"mlp|ffn|feed_?forward|densereludense|experts?(?:\.|_|$)|_moe(?:\.|$)|router|"
            r"layer\.\d+\.(?:intermediate|output)\.|(?:^|\.)(?:w[123]|fc\d|ff|(?:gate|up|down|"
            r"gate_up)_proj|dense_h_to_4h|dense_4h_to_h)(?:\.|$)"
        ),
    ),
    (
        "head",
        re.compile(
            r"(?:^|\.)(?:lm_head|\w+_head|heads?|embed_out|output_layer|score|classifier|cls|pooler"
            r"|qa_outputs|unembed)(?:\.|$)|^(?:(?:model|module|language_model)\.)*(?:output|fc)\."
        ),
    ),
    (
        "embedding",
        re.compile(
            r"(?:^|[._])(?:embed\w*|emb|wte|wpe)|\wembeddings?(?:\.|$)|_embd?(?:\.|$)|_embed(?:\.|"
            r"$)|^shared\.|(?:cls|mask|register)_tokens?$"
        ),
    ),
)
"""In this order: the attention inside an expert is attention, the norm of an embedding a norm."""

_ROTARY = re.compile(r"rotary|inv_freq|rope")

_INITIALIZED_TO_ONE = re.compile(
    r"(?:.*\.)?(?:D|[Dd]t_bias|lambda[12]|(?:ls\d?|layer_?scale_?\d?|LayerScale_?\d?)\.(?:gamma|"
    r"scale)|gamma_[12]|layer_scale_\d|layer_scale_parameter\d?|alpha|router\.scale|"
    r"ia3_l(?:\.\w+)?)"
)
"""Mamba's D, dt_bias of Qwen3-Next, LayerScale, Snake's alpha, Gemma 4's router, IA3 vectors."""

_QUANTISED = (
    *("weight_scale", "weight_scale_inv", "weight_packed", "weight_zero_point", "qweight"),
    *("qzeros", "absmax", "quant_map", "SCB", "_blocks", "_scales"),
)


def role(name: str) -> str:
    """The name with layer and expert numbers taken out: model.layers.*.mlp.up_proj.weight."""
    return _NUMBER.sub("*", name)


def roles(names: list[str]) -> list[str]:
    """The same for each of many; all of them at once take half as long."""
    text = "\n".join([*names, ""])
    if text.count("\n") != len(names):
        return [role(name) for name in names]
    found = ".*".join(_INNER.split(text)).split("\n")[:-1]
    begun = {each: role(each) for each in {*found} if each[:1].isdecimal()}
    return [begun.get(each, each) for each in found] if begun else found


def is_norm(tensor: Tensor) -> bool:
    """A 1-D float weight of a module that is called a norm; biases and statistics are none."""
    if len(tensor.shape) != 1 or not tensor.elements or tensor.dtype not in NORM_DTYPES:
        return False
    *path, last = tensor.name.casefold().split(".")
    if not _WEIGHT.fullmatch(last):
        return False
    owner = next((part for part in reversed(path) if not part.isdecimal()), "")
    return bool(_NORM.search(last) or _NORM.search(owner))


def numbered_norms(tensors: Iterable[Tensor]) -> set[str]:
    """Names of weights of norms in modules that have a number for a name, as in nn.Sequential.

    A vector called `weight` with a bias of its shape or running statistics: linear layers,
    convolutions and embeddings have weights of two and more dimensions.
    """
    vectors = {tensor.name: tensor for tensor in tensors}
    return {
        name
        for name, tensor in vectors.items()
        if (owner := _NUMBERED.fullmatch(name))
        and tensor.dtype in NORM_DTYPES
        and tensor.elements
        and any(
            (other := vectors.get(f"{owner[1]}.{each}")) is not None and other.shape == tensor.shape
            for each in ("bias", "running_var")
        )
    }


def is_initialized_to_one(tensor: Tensor) -> bool:
    """A parameter other than a norm whose initial value is 1.0, or often is.

    A vector, also where it is kept with further dimensions of length 1.
    """
    if tensor.dtype not in NORM_DTYPES or not tensor.elements or is_norm(tensor):
        return False
    vector = max(tensor.shape, default=0) == tensor.elements
    return vector and bool(_INITIALIZED_TO_ONE.fullmatch(tensor.name[-300:]))


def part_of(tensor: Tensor) -> Kind:
    """The part of a model that a tensor belongs to, by its name; "other" where none is known."""
    return kind_of(role(tensor.name), len(tensor.shape))


def kind_of(name: str, dimensions: int) -> Kind:
    """The same for tensors of one role."""
    return _kind(name, dimensions < 2)


@lru_cache(maxsize=10_000)
def _kind(name: str, vector: bool) -> Kind:
    path = name[-300:].casefold().replace("*", "0")
    if vector and _of_norm(path.split(".")):
        return "norm"
    if _ROTARY.search(path):
        return "other"
    return next((kind for kind, pattern in _KINDS if pattern.search(path)), "other")


def _of_norm(path: list[str]) -> bool:
    """A vector of a norm: its weight, bias or statistics."""
    *path, last = path
    owner = next((part for part in reversed(path) if not part.isdecimal()), "")
    return bool(_NORM.search(owner) or _NORM.search(last))


def is_packed(name: str) -> bool:
    """Whether the name is one that quantised weights and their scales have."""
    return name.endswith(_QUANTISED)
