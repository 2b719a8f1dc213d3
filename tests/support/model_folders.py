"""Directories of a small transformers model with one fault each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORDS = ("a", "training", "step", "is", "repeated", "on", "this", "text", "until", "it", "long")


def saved(directory: Path, **save: Any) -> Path:
    """A Llama of four layers and 160 tokens."""
    from runs import llama

    llama(num_hidden_layers=4, vocab_size=160).save_pretrained(directory, **save)
    return directory


def edited(directory: Path, **fields: Any) -> Path:
    file = saved(directory) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | fields), "utf-8")
    return directory


def renamed(directory: Path, rename: Callable[[str], str]) -> Path:
    """With tensors under other names; without those whose name becomes ""."""
    from safetensors.torch import load_file, save_file

    file = saved(directory) / "model.safetensors"
    state = {rename(name): value for name, value in load_file(file).items()}
    state.pop("", None)
    save_file(state, file, {"format": "pt"})
    return directory


def cut_off(directory: Path) -> Path:
    file = saved(directory) / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return directory


def without_a_part(directory: Path) -> Path:
    sorted(saved(directory, max_shard_size="20KB").glob("model-*"))[1].unlink()
    return directory


def with_tokenizer(directory: Path, size: int, unknown: int) -> Path:
    """A tokenizer of `size` words, whose token of unknown words has that number."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = [*WORDS, *(f"w{number}" for number in range(size))][: size - 1]
    names.insert(unknown, "<unk>")
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")
    fast.save_pretrained(saved(directory))
    return directory
