"""The sizes of a model, from its config.json: doctor_side.shape DIRECTORY.

The file is untrusted: it is read as data and never executed.
"""

import json
import os
from typing import Any, Dict, Optional

from .. import wire

LIMIT = 2 << 20
NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "num_heads"),
    "vocabulary": ("vocab_size",),
}
GATED = ("silu", "swish", "geglu", "swiglu", "gelu_pytorch_tanh")
"""Activations of models whose feed-forward part has a gate; GPT-2's own is gelu_new."""


class Unsupported(Exception):
    """The configuration does not describe a plain decoder."""


def main(path: str) -> None:
    """Report the shape, why there is none, or that there is no config.json."""
    with wire.stage("config.json"):
        settings = config(path)
    if settings is None:
        wire.send(answer={"reason": "there is no config.json", "absent": True})
        return
    try:
        shape = read(settings)
    except Unsupported as error:
        wire.send(answer={"reason": str(error)})
    else:
        wire.send(answer={"shape": {"type": "ModelShape", "file": path, **shape}})


def config(path: str) -> Optional[Dict[str, object]]:
    """The model's entries; those of its text model if it has several parts."""
    path = os.path.expanduser(path)
    directory = path if os.path.isdir(path) else os.path.dirname(path) or "."
    try:
        with open(os.path.join(directory, "config.json"), "rb") as file:
            data = file.read(LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    content = json.loads(data)
    if not isinstance(content, dict):
        raise ValueError("config.json holds no object")
    inner = content.get("text_config")
    return inner if isinstance(inner, dict) else content


def read(settings: Dict[str, Any]) -> Dict[str, object]:
    """The fields of `ModelShape`. Raises Unsupported if the model is not a plain decoder."""
    if settings.get("is_encoder_decoder") is True:
        raise Unsupported(
            "config.json describes an encoder-decoder model; its activations are not estimated"
        )
    if any(key in settings for key in ("num_experts", "num_local_experts", "n_routed_experts")):
        raise Unsupported(
            "config.json describes a mixture of experts; its activations are not estimated"
        )
    shape: Dict[str, Any] = {}
    for field, names in NAMES.items():
        size = first(settings, names)
        if size is None:
            raise Unsupported("config.json has no %s" % names[0])
        shape[field] = size
    inner = first(settings, ("intermediate_size", "ffn_dim", "n_inner")) or 4 * shape["hidden"]
    word = str(settings.get("hidden_act") or settings.get("hidden_activation") or "")
    implementation = settings.get("_attn_implementation")
    shape.update(intermediate=inner, gated=word in GATED)
    shape["attention"] = implementation[:40] if isinstance(implementation, str) else None
    return shape


def first(settings: Dict[str, Any], names: Any) -> Optional[int]:
    """The first of these entries that is a positive size."""
    for name in names:
        value = settings.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31:
            return value
    return None
