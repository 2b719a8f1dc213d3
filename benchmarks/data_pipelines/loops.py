"""Chats that a script tokenizes itself, for a transformers model: FAMILY_healthy and FAMILY_FAULT.

One fault each, as they are reported; `labels.csv` names the check that must find it.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import families
import torch
from torch.utils.data import DataLoader

LIMIT = 192


def rows(family: str, fault: str) -> tuple[Any, list[Any]]:
    """The tokenizer, and (ids, length of the prompt) of each chat."""
    made = families.tokenizer(family)
    other = families.tokenizer("llama3" if family != "llama3" else "qwen25")
    found = []
    for row in families.chats(64, long=fault == "cut"):
        source = other if fault == "foreign" else made
        prompt = source.apply_chat_template(row[:-1], tokenize=False, add_generation_prompt=True)
        full = source.apply_chat_template(row, tokenize=False)
        if fault == "nostop":
            full = prompt + row[-1]["content"]
        if fault == "noprompt":
            prompt, full = (row[0]["content"] + "\n" + each for each in ("", row[-1]["content"]
                            + families.FAMILIES[family][4][0]))  # fmt: skip
        encode = partial(made, add_special_tokens=False)
        if fault == "split":
            encode = partial(made, add_special_tokens=False, split_special_tokens=True)
        ids, before = encode(full)["input_ids"], encode(prompt)["input_ids"]
        start = next(
            (n for n, (a, b) in enumerate(zip(ids, before, strict=False)) if a != b), len(before)
        )
        if fault == "twice":
            ids, start = [made.bos_token_id, *ids], start + 1
        if fault == "nobos":
            ids, start = ids[1:], start - 1
        found.append((ids, start))
    limit = LIMIT
    if fault == "cut":  # the longest third
        limit = sorted(len(ids) for ids, _ in found)[40]
    if fault == "full":  # a third of the prompts
        limit = sorted(start for _, start in found)[40]
    return made, [(ids[:limit], min(start, limit)) for ids, start in found]


def collate(made: Any, fault: str, batch: list[Any]) -> dict[str, torch.Tensor]:
    length = max(len(ids) for ids, _ in batch)
    ids = torch.full((len(batch), length), made.pad_token_id)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, (tokens, start) in enumerate(batch):
        end = len(tokens)
        ids[row, :end], mask[row, :end] = torch.tensor(tokens), 1
        begin = start + (fault == "late")
        if fault == "inverted":
            labels[row, :start] = ids[row, :start]
        else:
            labels[row, begin:end] = ids[row, begin:end]
        if fault == "half" and row % 2:
            labels[row] = -100
    if fault == "unlabelled":
        labels[:] = -100
    if fault == "padding":
        labels[mask == 0] = made.pad_token_id
    if fault == "eosmasked":  # labels masked by the id of the padding, which is the stop
        stops = torch.tensor(made.convert_tokens_to_ids(list(families.FAMILIES[made.family][4])))
        labels[torch.isin(labels, stops)] = -100
    if fault == "attended":
        mask[:] = 1
    if fault == "shifted":
        labels = torch.cat([labels[:, 1:], torch.full((len(batch), 1), -100)], 1)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def make(family: str, fault: str) -> Any:
    made, found = rows(family, fault)
    made.family = family
    model = families.model(family, made)
    if fault == "otherstop":  # generation still has the stop of the base model
        model.generation_config.eos_token_id = made.convert_tokens_to_ids("river")
    random.Random(5).shuffle(found)
    loader = DataLoader(found, batch_size=4, collate_fn=partial(collate, made, fault))
    return {"model": model, "train": loader, "tokenizer": made}


def __getattr__(name: str) -> Any:
    family, _, fault = name.partition("_")
    if family not in families.FAMILIES or not fault:
        raise AttributeError(name)
    return lambda: make(family, "" if fault == "healthy" else fault)
