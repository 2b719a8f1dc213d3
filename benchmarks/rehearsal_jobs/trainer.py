"""A Trainer of transformers on a tiny model, with what people pass to it."""

from __future__ import annotations

import os
from typing import Any

import torch
from arguments import options
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

args = options()
kind, fault = args.kind, args.fault
torch.manual_seed(0)
config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2)
model: Any = GPT2LMHeadModel(config)
if kind == "lora":
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"]))
rows = [
    {"input_ids": torch.arange(8) + i % 8, "labels": torch.arange(8) + i % 8} for i in range(64)
]


class Raises(TrainerCallback):
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        raise OSError("No space left on device")


def metrics(prediction: Any) -> Any:
    return {"accuracy": prediction["logits"]} if fault == "metrics" else {"size": 1.0}


class Own(Trainer):
    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        if fault != "optimizer":
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_from_checkpoint(self, *arguments: Any, **named: Any) -> None:
        if fault != "weights":
            super()._load_from_checkpoint(*arguments, **named)


options: dict[str, Any] = {}
if kind == "hub":
    options = {"push_to_hub": True, "hub_model_id": "someone/model", "hub_token": "none"}
if kind == "limit":
    options = {"save_total_limit": 1}
if kind == "accumulation":
    options = {"gradient_accumulation_steps": 2}
if kind == "bf16":
    options = {"bf16": True}
if kind == "cosine":
    options = {"lr_scheduler_type": "cosine", "warmup_steps": 3}
if fault == "model alone":
    options = {"save_only_model": True}
training = TrainingArguments(
    output_dir=args.out, max_steps=8, save_steps=3, eval_strategy="steps", eval_steps=4,
    per_device_train_batch_size=2, logging_steps=2, use_cpu=True, report_to=[], disable_tqdm=True,
    learning_rate=1e-3, **options,
)  # fmt: skip
trainer = Own(
    model=model, args=training, train_dataset=rows, eval_dataset=rows[:8], compute_metrics=metrics,
    callbacks=[Raises()] if fault == "disk" else [],
)  # fmt: skip
looks = os.path.isdir(args.out) and kind != "begins anew"
last = get_last_checkpoint(args.out) if looks else None
if fault == "path" and last:
    last = last + "-best"
trainer.train(resume_from_checkpoint=last)
