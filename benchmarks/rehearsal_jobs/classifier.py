"""A Trainer of transformers that classifies texts: metrics, the best model, callbacks of its own."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy
import torch
from arguments import options
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

args = options()
kind, fault = args.kind, args.fault
set_seed(0)


class Texts(Dataset):
    def __init__(self, count: int, seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(5, 90, (count, 12), generator=g)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, at: int) -> Any:
        tokens = self.tokens[at]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens),
                "labels": int(tokens[0] > 45)}  # fmt: skip


def metrics(prediction: Any) -> Any:
    right = numpy.argmax(prediction.predictions, -1) == prediction.label_ids
    return {"acc" if fault == "metric" else "accuracy": float(right.mean())}


class Average(TrainerCallback):
    """An average of the weights, which nobody saves with the fault."""

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.path = os.path.join(args.output_dir, "average.pt")
        if fault != "average" and os.path.exists(self.path):
            self.model.load_state_dict(torch.load(self.path, weights_only=True))

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        with torch.no_grad():
            for mean, now in zip(self.model.parameters(), model.parameters(), strict=True):
                mean.lerp_(now, 0.1)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if fault != "average":
            torch.save(self.model.state_dict(), self.path)


class Shrinks(TrainerCallback):
    """Writes the weights of a checkpoint again, and is not done when the next step begins."""

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        path = os.path.join(folder, "model.safetensors")
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(data[: len(data) * 2 // 3])


config = BertConfig(vocab_size=96, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=32, max_position_embeddings=16)  # fmt: skip
model: Any = BertForSequenceClassification(config)
if kind == "frozen":
    for parameter in model.bert.embeddings.parameters():
        parameter.requires_grad = False
training = TrainingArguments(
    output_dir=args.out, max_steps=12, per_device_train_batch_size=8, learning_rate=1e-3,
    eval_strategy="steps", eval_steps=4, save_steps=4, save_total_limit=2, warmup_steps=2,
    lr_scheduler_type="cosine", load_best_model_at_end=True, metric_for_best_model="accuracy",
    logging_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, max_grad_norm=0.5,
    gradient_checkpointing=kind == "frozen", label_smoothing_factor=0.1,
)  # fmt: skip
callbacks: list[Any] = [EarlyStoppingCallback(5)]
if kind == "averages" or fault == "average":
    callbacks.append(Average())
if fault == "half":
    callbacks.append(Shrinks())
trainer = Trainer(
    model=model, args=training, train_dataset=Texts(80, 1), eval_dataset=Texts(24, 2),
    compute_metrics=metrics, callbacks=callbacks,
)  # fmt: skip
last = get_last_checkpoint(args.out) if os.path.isdir(args.out) else None
trainer.train(resume_from_checkpoint=last)
