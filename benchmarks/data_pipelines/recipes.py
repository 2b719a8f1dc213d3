"""Loaders rebuilt after the configurations of axolotl, LLaMA-Factory and torchtune, without these
packages: what their collators hand to the model, in their own keys; NAME_healthy and NAME_FAULT."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import families
import torch
from others import texts
from torch.utils.data import DataLoader

ALPACA = "Below is an instruction that describes a task.\n\n### Instruction:\n{}\n\n### Response:\n"


def padded(rows: list[Any], made: Any, fault: str, multiple: int = 8, full: int = 0) -> Any:
    """(ids, labels) of rows as a batch."""
    longest = full or max(len(ids) for ids, _ in rows)
    size = -(-longest // multiple) * multiple
    ids = torch.full((len(rows), size), made.pad_token_id)
    labels, mask = torch.full_like(ids, -100), torch.zeros_like(ids)
    if fault == "padtrained":
        labels[:] = made.pad_token_id
    for number, (tokens, targets) in enumerate(rows):
        end = len(tokens)
        ids[number, :end] = torch.tensor(tokens)
        labels[number, :end] = torch.tensor(targets)
        mask[number, :end] = 1
    if fault == "attended":
        mask[:] = 1
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}


def loader(family: str, made: Any, rows: list[Any], fault: str, **fields: Any) -> Any:
    random.Random(7).shuffle(rows)
    collate = partial(padded, made=made, fault=fault, **fields)
    return {
        "model": families.model(family, made),
        "tokenizer": made,
        "train": DataLoader(rows, batch_size=4, collate_fn=collate),
    }


# axolotl


def alpaca(fault: str) -> Any:
    """type: alpaca, train_on_inputs: false, pad_to_sequence_len: true."""
    made = families.tokenizer("llama3")
    made.add_special_tokens({"eos_token": "<|end_of_text|>"})
    rows = []
    for a, b in zip(texts(64, 101), texts(64, 102), strict=True):
        before = [made.bos_token_id, *made(ALPACA.format(a))["input_ids"]]
        if fault == "twobos":
            before = [made.bos_token_id, *before]
        after = made(b)["input_ids"] + ([] if fault == "nostop" else [made.eos_token_id])
        labels = [-100] * len(before) + after
        if fault == "inverted":
            labels = before + [-100] * len(after)
        rows.append((before + after, labels))
    if fault == "double":
        rows = [(ids, [*labels[1:], -100]) for ids, labels in rows]
    found = loader("llama3", made, rows, fault, full=256)
    found["model"].resize_token_embeddings(len(made))
    found["model"].generation_config.eos_token_id = made.eos_token_id
    return found


def multipack(fault: str) -> Any:
    """sample_packing: true: the mask numbers the documents of a row."""
    made = families.tokenizer("mistral")
    size, packs, pack = 192, [], []
    for row in families.chats(160, seed=19):
        ids = made(made.apply_chat_template(row, tokenize=False), add_special_tokens=False)[
            "input_ids"
        ]
        before = made(made.apply_chat_template(row[:1], tokenize=False), add_special_tokens=False)
        if sum(len(each) for each, _ in pack) + len(ids) > size:
            packs.append(pack)
            pack = []
        start = len(before["input_ids"])
        pack = [*pack, (ids, [-100] * start + ids[start:])]

    def collate(batch: list[Any]) -> Any:
        rows = [
            ([t for ids, _ in each for t in ids], [t for _, l in each for t in l])  # noqa: E741
            for each in batch
        ]
        made_batch = padded(rows, made, "", full=size)
        positions = torch.zeros_like(made_batch["input_ids"])
        numbers = torch.zeros_like(positions)
        for row, each in enumerate(batch):
            at = 0
            for number, (ids, _) in enumerate(each, 1):
                positions[row, at : at + len(ids)] = torch.arange(len(ids))
                numbers[row, at : at + len(ids)] = number
                at += len(ids)
        if fault == "double":
            made_batch["labels"] = torch.roll(made_batch["labels"], -1, 1)
        if fault == "unlabelled":
            made_batch["labels"][:] = -100
        return {**made_batch, "attention_mask": numbers, "position_ids": positions}

    return {"tokenizer": made, "train": DataLoader(packs, batch_size=2, collate_fn=collate)}


def segments(fault: str) -> Any:
    """type: input_output, segments with label true or false."""
    made = families.tokenizer("zephyr")
    draw, rows = random.Random(20), []
    for _ in range(64):
        ids, labels = [made.bos_token_id], [-100]
        for number in range(4):
            piece = made(families.sentence(draw, 3, 9) + "\n")["input_ids"]
            piece = piece + [made.eos_token_id] * (number == 3)
            ids = ids + piece
            trained = number % 2 and fault != "unlabelled"
            labels = labels + (piece if trained else [-100] * len(piece))
        rows.append((ids, labels))
    return loader("zephyr", made, rows, fault)


# LLaMA-Factory


def factory(fault: str) -> Any:
    """stage: sft, template, cutoff_len, several turns of which all answers are trained."""
    made = families.tokenizer("qwen25")
    other = families.tokenizer("gemma")
    rows = []
    for chat in families.chats(64, seed=23, turns=2):
        ids: list[int] = []
        labels: list[int] = []
        render = partial(
            (other if fault == "othertemplate" else made).apply_chat_template, tokenize=False
        )
        for turn in (2, 4):
            so_far = render(chat[: turn - 1], add_generation_prompt=True)
            whole = render(chat[:turn])
            before = made(so_far, add_special_tokens=False)["input_ids"]
            full = made(whole, add_special_tokens=False)["input_ids"]
            labels = labels + [-100] * (len(before) - len(labels)) + full[len(before) :]
            start = len(before) - (fault == "late")
            if fault == "late":
                labels[start + 1] = -100
            if fault == "history" and turn == 2:
                labels = [-100] * len(labels)
            ids = full
        rows.append((ids, labels[: len(ids)]))
    if fault == "cut":
        limit = sorted(len(ids) for ids, _ in rows)[36]
        rows = [(ids[:limit], labels[:limit]) for ids, labels in rows]
    if fault == "fewlabels":
        rows = [
            (ids, [-100] * len(labels) if n % 6 == 0 else labels)
            for n, (ids, labels) in enumerate(rows)
        ]
    return loader("qwen25", made, rows, fault)


def pairwise(fault: str) -> Any:
    """stage: dpo: the chosen rows of a batch, then the rejected ones."""
    made = families.tokenizer("llama3")
    draw, rows = random.Random(24), []
    for row in families.chats(48, seed=25):
        before = made.apply_chat_template(row[:1], tokenize=False, add_generation_prompt=True)
        ids = made(before, add_special_tokens=False)["input_ids"]
        answers = [
            made(families.sentence(draw, 5, 15))["input_ids"] + [made.eos_token_id]
            for _ in range(2)
        ]
        rows.append([(ids + each, [-100] * len(ids) + each) for each in answers])

    def collate(batch: list[Any]) -> Any:
        return padded([each[side] for side in (0, 1) for each in batch], made, fault)

    return {"tokenizer": made, "train": DataLoader(rows, batch_size=4, collate_fn=collate)}


# torchtune


class Decoder(torch.nn.Module):
    """Tokens, their places and a mask of T x T to logits, as torchtune's TransformerDecoder."""

    def __init__(self, words: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tok_embeddings = torch.nn.Embedding(words, 32)
        self.place = torch.nn.Embedding(512, 32)
        self.layer = torch.nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True)
        self.output = torch.nn.Linear(32, words)

    def forward(self, tokens: Any, *, mask: Any = None, input_pos: Any = None) -> Any:
        length = tokens.shape[1]
        places = torch.arange(length) if input_pos is None else input_pos
        hidden = self.tok_embeddings(tokens) + self.place(places)
        hidden_from = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        if mask is not None:
            hidden_from = (~mask).repeat_interleave(2, 0)
        return self.output(self.layer(hidden, src_mask=hidden_from))


def recipe_loss(model: Any, batch: Any, fault: str = "") -> Any:
    """The recipe shifts the labels, which the dataset left as they are."""
    batch = dict(batch)
    labels = batch.pop("labels")
    batch.pop("seq_lens", None)
    if fault == "ignored":
        batch.pop("mask", None)
    logits = model(**batch)
    if fault != "noshift":
        labels = torch.hstack([labels[:, 1:], torch.full_like(labels[:, :1], -100)])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def tune(fault: str) -> Any:
    """PackedDataset and padded_collate_packed, or padded_collate_sft."""
    made = families.tokenizer("gemma")
    packed = fault in ("packed", "ignored")
    rows = []
    for chat in families.chats(128 if packed else 64, seed=27):
        ids = made(made.apply_chat_template(chat, tokenize=False), add_special_tokens=False)[
            "input_ids"
        ]
        start = made(
            made.apply_chat_template(chat[:1], tokenize=False, add_generation_prompt=True),
            add_special_tokens=False,
        )["input_ids"]
        labels = [-100] * len(start) + ids[len(start) :]
        rows.append((ids, [*labels[1:], -100] if fault == "double" else labels))

    def plain(batch: list[Any]) -> Any:
        made_batch = padded(batch, made, "", multiple=1)
        return {"tokens": made_batch["input_ids"], "labels": made_batch["labels"]}

    def pack(batch: list[Any]) -> Any:
        ids = torch.tensor([[t for each, _ in batch for t in each]])
        labels = torch.tensor([[t for _, each in batch for t in each]])
        places = torch.cat([torch.arange(len(each)) for each, _ in batch])[None]
        blocks = [
            torch.tril(torch.ones(len(each), len(each), dtype=torch.bool)) for each, _ in batch
        ]
        return {
            "tokens": ids,
            "labels": labels,
            "input_pos": places,
            "mask": torch.block_diag(*blocks).bool()[None],
        }

    loader = DataLoader(rows, batch_size=4, shuffle=True, collate_fn=pack if packed else plain)
    return {
        "model": Decoder(len(made)),
        "tokenizer": made,
        "train": loader,
        "loss": partial(recipe_loss, fault=fault),
    }


def compared(fault: str) -> Any:
    """PreferenceDataset: keys of its own for both answers."""
    made = families.tokenizer("llama3")
    draw, rows = random.Random(28), []
    for chat in families.chats(64, seed=29):
        row: dict[str, Any] = {}
        before = made(chat[0]["content"] + "\n")["input_ids"]
        for side in ("chosen", "rejected"):
            after = made(families.sentence(draw, 5, 14))["input_ids"] + [made.eos_token_id]
            if fault == "equal" and side == "rejected":
                row["rejected_input_ids"] = row["chosen_input_ids"]
                row["rejected_labels"] = row["chosen_labels"]
                continue
            row[f"{side}_input_ids"] = before + after
            row[f"{side}_labels"] = [-100] * len(before) + after
        rows.append(row)
    return {"train": rows, "tokenizer": made}


KINDS = {
    "alpaca": alpaca,
    "multipack": multipack,
    "segments": segments,
    "factory": factory,
    "pairwise": pairwise,
    "tune": tune,
    "compared": compared,
}


def __getattr__(name: str) -> Any:
    kind, _, fault = name.partition("_")
    if kind not in KINDS or not fault:
        raise AttributeError(name)
    return partial(KINDS[kind], "" if fault == "healthy" else fault)
