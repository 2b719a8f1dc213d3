"""Records of checkpoints, from fields of their sections by name."""

from __future__ import annotations

from typing import Any

from doctor.checkpoint.records import (
    Checkpoint,
    Contents,
    Files,
    Loading,
    ModelConfig,
    Training,
)

SECTIONS = {
    "files": Files,
    "contents": Contents,
    "model": ModelConfig,
    "training": Training,
    "loading": Loading,
}

LLAMA: dict[str, Any] = {
    "path": "/models/llama",
    "layout": "one safetensors file",
    "count": 1,
    "bytes": 2 * 10**9,
    "largest": 2 * 10**9,
    "tensors": 291,
    "parameters": 10**9,
    "model_type": "llama",
}


def checkpoint(**changes: Any) -> Checkpoint:
    """A small Llama with these fields instead, each put into the section that has it."""
    fields = LLAMA | changes
    sections: dict[str, Any] = {}
    for name, kind in SECTIONS.items():
        present = {field: fields.pop(field) for field in kind.__struct_fields__ if field in fields}
        sections[name] = kind(**present)
    return Checkpoint(**sections, **fields)
