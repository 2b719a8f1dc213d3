"""Loaders of chats as people write them, healthy and with one fault each."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

WORDS = 200
PAD, BOS, EOS = 0, 1, 2


def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=WORDS, hidden_size=32, intermediate_size=64,
                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=128, pad_token_id=PAD, bos_token_id=BOS,
                         eos_token_id=EOS)  # fmt: skip
    return LlamaForCausalLM(config)


def chats(count: int = 64) -> list[tuple[list[int], int]]:
    """Tokens, and how many of them are the prompt."""
    draw = torch.Generator().manual_seed(3)
    rows = []
    for _ in range(count):
        prompt, answer = torch.randint(4, 12, (2,), generator=draw).tolist()
        words = torch.randint(5, WORDS, (prompt + answer,), generator=draw).tolist()
        rows.append(([BOS, *words, EOS], 1 + prompt))
    return rows


def collate(rows: list[Any], fault: str = "") -> dict[str, torch.Tensor]:
    length = max(len(tokens) for tokens, _ in rows)
    ids = torch.full((len(rows), length), PAD)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, (tokens, prompt) in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
        labels[row, prompt : len(tokens)] = torch.tensor(tokens[prompt:])
        if fault == "half" and row % 2:
            labels[row] = -100
    if fault == "padding":
        labels[mask == 0] = PAD
    if fault == "shifted":
        labels = torch.cat([labels[:, 1:], torch.full((len(rows), 1), -100)], 1)
    if fault == "unlabelled":
        labels[:] = -100
    if fault == "attended":
        mask[:] = 1
    if fault == "raises":
        raise KeyError("the secret of a row")
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def make(fault: str = "") -> tuple[LlamaForCausalLM, Any]:
    return model(), DataLoader(chats(), batch_size=8, collate_fn=lambda b: collate(b, fault))


def healthy() -> Any:
    return make()


def padding() -> Any:
    return make("padding")


def shifted() -> Any:
    return make("shifted")


def unlabelled() -> Any:
    return make("unlabelled")


def half() -> Any:
    return make("half")


def attended() -> Any:
    return make("attended")


def raises() -> Any:
    return make("raises")
