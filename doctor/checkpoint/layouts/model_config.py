"""What config.json says of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from doctor._util.units import shown

LIMIT = 2 << 20
"""Bytes of config.json that are read."""


@dataclass(frozen=True, slots=True)
class Config:
    """The entries that checks ask for; None where config.json has none of the right kind."""

    model_type: str | None = None
    text_model_type: str | None = None
    dtype: str | None = None
    quantized: bool = False


def read_config(found: dict[str, Any]) -> Config:
    """Entries of a stranger's config.json: what has a wrong type is not there."""
    inner = found.get("text_config")
    text: dict[str, Any] = inner if isinstance(inner, dict) else {}
    return Config(
        _word(found.get("model_type")),
        _word(text.get("model_type")),
        _dtype(found) or _dtype(text),
        any(
            isinstance(part.get(key), dict)
            for part in (found, text)
            for key in ("quantization_config", "compression_config")
        ),
    )


def _dtype(found: dict[str, Any]) -> str | None:
    """dtype, or the older torch_dtype; where it is one for each part, the text model's."""
    said = found.get("dtype", found.get("torch_dtype"))
    if isinstance(said, dict):
        said = said.get("text_config", said.get(""))
    word = _word(said)
    return word.removeprefix("torch.") if word and word != "auto" else None


def _word(found: Any) -> str | None:
    return shown(found) if isinstance(found, str) and found else None
