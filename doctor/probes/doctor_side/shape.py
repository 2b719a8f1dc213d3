"""The sizes of a model, from its config.json: python shape.py FD FOLDER.

The file is data of a stranger: it is read and nothing of it is run.
"""

import json
import os
import sys
from typing import Any, Dict, Optional

import wire

LIMIT = 2 << 20
NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "num_heads"),
    "vocabulary": ("vocab_size",),
}
GATED = ("silu", "swish", "geglu", "swiglu", "gelu_pytorch_tanh")
"""Activations of models whose feed-forward part has a gate; GPT-2's own is gelu_new."""


def main(path: str) -> None:
    """Tell the shape, why there is none, or that there is no config.json."""
    with wire.stage("config.json"):
        found = config(path)
    if found is None:
        wire.tell(answer={"reason": "there is no config.json", "absent": True})
        return
    shape = read(found)
    if isinstance(shape, str):
        wire.tell(answer={"reason": shape})
    else:
        wire.tell(answer={"shape": {"type": "ModelShape", "file": path, **shape}})


def config(path: str) -> Optional[Dict[str, Any]]:
    """The model's entries; of one with several parts those of its text model."""
    path = os.path.expanduser(path)
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    try:
        with open(os.path.join(folder, "config.json"), "rb") as file:
            data = file.read(LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    told = json.loads(data)
    if not isinstance(told, dict):
        raise ValueError("config.json holds no object")
    inner = told.get("text_config")
    return inner if isinstance(inner, dict) else told


def read(found: Dict[str, Any]) -> Any:
    """The shape's fields, or why they do not describe a plain decoder."""
    if found.get("is_encoder_decoder") is True:
        return "config.json is of an encoder and a decoder, whose activations are not estimated"
    if any(key in found for key in ("num_experts", "num_local_experts", "n_routed_experts")):
        return "config.json is of a mixture of experts, whose activations are not estimated"
    shape: Dict[str, Any] = {}
    for field, names in NAMES.items():
        size = first(found, names)
        if size is None:
            return "config.json has no %s" % names[0]
        shape[field] = size
    inner = first(found, ("intermediate_size", "ffn_dim", "n_inner")) or 4 * shape["hidden"]
    word = str(found.get("hidden_act") or found.get("hidden_activation") or "")
    said = found.get("_attn_implementation")
    shape.update(intermediate=inner, gated=word in GATED)
    shape["attention"] = said[:40] if isinstance(said, str) else None
    return shape


def first(found: Dict[str, Any], names: Any) -> Optional[int]:
    """The first of these entries that is a size."""
    for name in names:
        value = found.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31:
            return value
    return None


if __name__ == "__main__":
    main(sys.argv[2])
