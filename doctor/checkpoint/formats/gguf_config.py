"""The model that the header of a GGUF file describes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

TOKENS = "tokenizer.ggml.tokens"

IDS = {
    "eos_token_id": "eos_token_id",
    "bos_token_id": "bos_token_id",
    "pad_token_id": "padding_token_id",
    "eot_token_id": "eot_token_id",
}


LANGUAGE = frozenset({
    "bloom", "command-r", "deepseek2", "falcon", "gemma", "gemma2", "gemma3", "gpt2", "gptneox",
    "granite", "llama", "llama4", "mistral3", "mpt", "olmo2", "phi2", "phi3", "qwen2", "qwen2moe",
    "qwen3", "qwen3moe", "stablelm", "starcoder2",
})  # fmt: skip
"""Architectures that llama.cpp loads with an embedding of their own; drafts have none."""


def lacks_embedding(config: Mapping[str, object], names: Collection[str]) -> bool:
    """Whether a language model, by its header and its first layer, has no embedding of tokens."""
    described = {"num_hidden_layers", "vocab_size"} <= config.keys()
    if not described or str(config.get("architecture")) not in LANGUAGE or EMBEDDING in names:
        return False
    return any(name.startswith("blk.0.") for name in names)


EMBEDDING = "token_embd.weight"


def gguf_config(values: Mapping[str, str | int]) -> dict[str, object]:
    """What the header of a GGUF model says, in the words of config.json.

    An array stands in `values` as its length. {} for adapters, importance matrices and the like.
    """
    if values.get("general.type", "model") != "model":
        return {}
    family = values.get("general.architecture", "")
    keys = {
        "num_hidden_layers": f"{family}.block_count",
        "num_nextn_predict_layers": f"{family}.nextn_predict_layers",
        "hidden_size": f"{family}.embedding_length",
        "vocab_size": TOKENS if values.get(TOKENS) else f"{family}.vocab_size",
        **{ours: f"tokenizer.ggml.{theirs}" for ours, theirs in IDS.items()},
    }
    config = {name: values[key] for name, key in keys.items() if type(values.get(key)) is int}
    layers, further = config.get("num_hidden_layers"), config.get("num_nextn_predict_layers")
    if isinstance(layers, int) and isinstance(further, int):  # block_count has both
        config["num_hidden_layers"] = max(layers - further, 0)
    return {**config, "architecture": family} if config else {}
