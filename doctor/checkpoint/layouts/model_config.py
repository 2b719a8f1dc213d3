"""What config.json says of the model."""

from __future__ import annotations

from collections.abc import Mapping

from doctor._util.units import shown
from doctor.checkpoint.records import ModelConfig

LIMIT = 2 << 20
"""Bytes of config.json that are read."""


def read_config(config: dict[str, object]) -> ModelConfig:
    """The entries of an untrusted config.json; those of a wrong type are ignored."""
    inner = config.get("text_config")
    text_config: dict[str, object] = inner if isinstance(inner, dict) else {}
    return ModelConfig(
        model_type=_word(config.get("model_type")),
        text_model_type=_word(text_config.get("model_type")),
        dtype=_dtype(config) or _dtype(text_config),
        quantized=any(
            isinstance(part.get(key), dict)
            for part in (config, text_config)
            for key in ("quantization_config", "compression_config")
        ),
    )


TOKENS = (
    *("eos_token_id", "bos_token_id", "pad_token_id", "eot_token_id"),
    *("decoder_start_token_id", "forced_bos_token_id"),
)

NO_TOKEN = 2**32 - 1

GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


def token_ids(config: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """The numbers of tokens that a configuration names, one or several of each kind."""
    named: dict[str, tuple[int, ...]] = {}
    for key in TOKENS:
        value = config.get(key)
        each = value if isinstance(value, list) else [value]
        if numbers := tuple(n for n in each[:100] if type(n) is int and 0 <= n < NO_TOKEN):
            named[key] = numbers
    return named


def generates(config: Mapping[str, object]) -> bool:
    """Whether the model is one that writes text until a token that ends it."""
    names = config.get("architectures")
    return isinstance(names, list) and any(
        isinstance(name, str) and name.endswith(GENERATES) for name in names
    )


def _dtype(config: dict[str, object]) -> str | None:
    """dtype, or the older torch_dtype; where there is one for each part, the text model's."""
    dtype = config.get("dtype", config.get("torch_dtype"))
    if isinstance(dtype, dict):
        dtype = dtype.get("text_config", dtype.get(""))
    word = _word(dtype)
    return word.removeprefix("torch.") if word and word != "auto" else None


def _word(value: object) -> str | None:
    return shown(value) if isinstance(value, str) and value else None
