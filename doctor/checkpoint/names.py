"""Names of tensors: data of strangers, in which roles and norms are recognised."""

from __future__ import annotations

import re

from doctor.checkpoint.tensors import Tensor

NORM_DTYPES = ("BF16", "F16", "F32", "F64")

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_WEIGHT = re.compile(r"(?:weight|scale|gamma|g|.*norm_(?:weight|scale|gamma))")
_NORM = re.compile(r"norm|layrnorm|rms|(?:^|_)ln(?:_|\d|$)|(?:^|_)bn\d*(?:_|$)")
_QUANTISED = (
    "weight_scale",
    "weight_scale_inv",
    "weight_packed",
    "weight_zero_point",
    "qweight",
    "qzeros",
    "absmax",
    "quant_map",
    "SCB",
    "_blocks",
    "_scales",
)


def shown(text: str, limit: int = 100) -> str:
    """A stranger's name as it may be printed: cut, and control characters escaped."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    if cut.isprintable():
        return cut
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in cut
    )


def role(name: str) -> str:
    """The name with layer and expert numbers taken out: model.layers.*.mlp.up_proj.weight."""
    return _NUMBER.sub("*", name)


def is_norm(tensor: Tensor) -> bool:
    """A 1-D float weight of a module that is called a norm; biases and statistics are none."""
    if len(tensor.shape) != 1 or not tensor.elements or tensor.dtype not in NORM_DTYPES:
        return False
    *path, last = tensor.name.casefold().split(".")
    if not _WEIGHT.fullmatch(last):
        return False
    owner = next((part for part in reversed(path) if not part.isdecimal()), "")
    return bool(_NORM.search(last) or _NORM.search(owner))


def is_packed(name: str) -> bool:
    """Whether the name is one that quantised weights and their scales have."""
    return name.endswith(_QUANTISED)
