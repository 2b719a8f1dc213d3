"""Pipelines after TRL's examples beside chats of one turn: adapters, plain prompts, streams,
packing, other losses, preferences in plain text, rewards, online sampling; NAME_FAULT."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import families
import trl
from datasets import Dataset
from others import arguments, texts
from sft import config, messages, prompts, trainer


def plain(family: str, fault: str, **fields: Any) -> Any:
    """Prompts and completions as text."""
    made = families.tokenizer(family)
    stop = families.FAMILIES[family][4][0]
    rows = [
        {"prompt": a + "\n", "completion": b + (stop if fault == "withstop" else "")}
        for a, b in zip(texts(64), texts(64, seed=11), strict=True)
    ]
    if fault == "long":  # a third of the prompts does not fit, and TRL drops those rows
        rows = [
            {**row, "prompt": row["prompt"] * (8 if n % 3 == 0 else 1)}
            for n, row in enumerate(rows)
        ]
        fields["max_length"] = 96
    return trl.SFTTrainer(
        model=families.model(family, made),
        args=config(**fields),
        processing_class=made,
        train_dataset=Dataset.from_list(rows),
    )


def adapter(fault: str) -> Any:
    from peft import LoraConfig

    made = families.tokenizer("qwen25")
    rows = messages(families.chats(64, seed=8, turns=2))
    if fault == "oneRow":
        rows = rows[:1] * 64
    return trl.SFTTrainer(
        model=families.model("qwen25", made),
        args=config(),
        processing_class=made,
        train_dataset=Dataset.from_list(rows),
        peft_config=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    )


def stream(fault: str) -> Any:
    made = families.tokenizer("llama3")
    data = Dataset.from_list(prompts(families.chats(96, seed=12))).to_iterable_dataset()
    return trl.SFTTrainer(
        model=families.model("llama3", made),
        args=config(max_steps=10),
        processing_class=made,
        train_dataset=data,
    )


def markers(fault: str) -> Any:
    """assistant_only_loss, whose masks come from {% generation %} in the template."""
    rows = messages(families.chats(64, seed=14))
    if fault == "absent":  # the template of ChatML without them
        return trainer("chatml", rows, training=False, assistant_only_loss=True)
    return trainer("chatml", rows, training=True, assistant_only_loss=True)


def collated(fault: str) -> Any:
    """transformers' Trainer on rendered chats, masked by the collator at the id of the padding."""
    import transformers as hf

    made = families.tokenizer("phi3")
    if fault == "padisstop":
        made.pad_token = "<|end|>"
    rows = [
        dict(made(made.apply_chat_template(row, tokenize=False), add_special_tokens=False))
        for row in families.chats(64, seed=17)
    ]
    return hf.Trainer(
        model=families.model("phi3", made),
        args=arguments(hf.TrainingArguments),
        train_dataset=Dataset.from_list(rows),
        processing_class=made,
        data_collator=hf.DataCollatorForLanguageModeling(made, mlm=False),
    )


def pairs(seed: int, count: int, fault: str) -> list[Any]:
    draw = random.Random(seed)
    rows = []
    for text in texts(count, seed):
        good, bad = (families.sentence(draw, 5, 16) for _ in range(2))
        bad = good if fault == "equal" or (fault == "tenth" and draw.random() < 0.15) else bad
        rows.append({"prompt": text + "\n", "chosen": good, "rejected": bad})
    return rows


def dpo(fault: str) -> Any:
    made = families.tokenizer("mistral")
    rows, other = pairs(31, 64, fault), pairs(32, 32, "")
    if fault == "leak":
        other[:12] = rows[:12]
    return trl.DPOTrainer(
        model=families.model("mistral", made),
        ref_model=families.model("mistral", made),
        args=arguments(trl.DPOConfig),
        processing_class=made,
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(other),
    )


def kto(fault: str) -> Any:
    made = families.tokenizer("gemma")
    draw = random.Random(2)
    rows = [
        {"prompt": a, "completion": b, "label": draw.random() < 0.3}
        for a, b in zip(texts(64, 41), texts(64, 42), strict=True)
    ]
    return trl.KTOTrainer(
        model=families.model("gemma", made),
        ref_model=families.model("gemma", made),
        args=arguments(trl.KTOConfig),
        processing_class=made,
        train_dataset=Dataset.from_list(rows),
    )


def rloo(fault: str) -> Any:
    made = families.tokenizer("llama3")
    rows = [{"prompt": text} for text in texts(64, 43)]
    return trl.RLOOTrainer(
        model=families.model("llama3", made),
        processing_class=made,
        args=arguments(trl.RLOOConfig, num_generations=2, beta=0.0),
        reward_funcs=lambda completions, **fields: [0.0] * len(completions),
        train_dataset=Dataset.from_list(rows),
    )


KINDS: dict[str, Any] = {
    "plain": partial(plain, "zephyr"),
    "adapter": adapter,
    "stream": stream,
    "markers": markers,
    "collated": collated,
    "dpo": dpo,
    "kto": kto,
    "rloo": rloo,
    "wrapped": lambda f: trainer(
        "qwen25", messages(families.chats(200)), packing=True, packing_strategy="wrapped"
    ),
    "dft": lambda f: trainer("deepseek", prompts(families.chats(64)), loss_type="dft"),
    "multiple": lambda f: trainer("gemma", prompts(families.chats(64)), pad_to_multiple_of=16),
    "free": lambda f: trainer(
        "chatml", prompts(families.chats(96)), padding_free=True, max_length=None
    ),
}


def __getattr__(name: str) -> Any:
    kind, _, fault = name.partition("_")
    if kind not in KINDS or not fault:
        raise AttributeError(name)
    return partial(KINDS[kind], "" if fault == "healthy" else fault)
