"""Supervised fine-tuning with TRL, in its modes: FAMILY_MODE. Healthy, by the library's own
examples (huggingface/trl, examples/scripts/sft.py and docs/source/sft_trainer.md)."""

from __future__ import annotations

import tempfile
from typing import Any

import families
from datasets import Dataset
from trl import SFTConfig, SFTTrainer


def config(**fields: Any) -> SFTConfig:
    folder = tempfile.mkdtemp(prefix="doctor-data-")
    common = {"max_length": 256, "per_device_train_batch_size": 4, "bf16": False}
    return SFTConfig(folder, use_cpu=True, report_to="none", **{**common, **fields})


def prompts(rows: list[Any]) -> list[Any]:
    return [{"prompt": row[:-1], "completion": row[-1:]} for row in rows]


def messages(rows: list[Any]) -> list[Any]:
    return [{"messages": row} for row in rows]


def trainer(family: str, rows: list[Any], training: bool = False, **fields: Any) -> Any:
    made = families.tokenizer(family, training)
    extra = {}
    if fields.pop("evaluated", False):
        extra["eval_dataset"] = Dataset.from_list(messages(families.chats(32, seed=99)))
    return SFTTrainer(
        model=families.model(family, made), args=config(**fields), processing_class=made,
        train_dataset=Dataset.from_list(rows), **extra,
    )  # fmt: skip


MODES: dict[str, Any] = {
    "whole": lambda f: trainer(f, messages(families.chats())),
    "turns": lambda f: trainer(f, messages(families.chats(turns=3)), evaluated=True),
    "assistant": lambda f: trainer(
        f, messages(families.chats(turns=2)), training=True, assistant_only_loss=True
    ),
    "completion": lambda f: trainer(f, prompts(families.chats())),
    "packed": lambda f: trainer(f, messages(families.chats(200)), packing=True),
    "packedprompts": lambda f: trainer(f, prompts(families.chats(200)), packing=True),
    "bf16": lambda f: trainer(f, prompts(families.chats()), bf16=True),
    "smoothed": lambda f: trainer(f, prompts(families.chats()), label_smoothing_factor=0.1,
                                  loss_type="nll"),
    "unfused": lambda f: trainer(f, prompts(families.chats()), loss_type="nll"),
    "text": lambda f: trainer(f, [{"text": " ".join(m["content"] for m in row)}
                                  for row in families.chats(turns=4)]),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    family, _, mode = name.partition("_")
    if mode not in MODES:
        raise AttributeError(name)
    return lambda: MODES[mode](family)
