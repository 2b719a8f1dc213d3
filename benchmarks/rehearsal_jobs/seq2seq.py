"""Trainers of transformers in further shapes: generation, early stopping, streams, two ranks."""

from __future__ import annotations

import os
from typing import Any

import torch
from arguments import options
from torch import nn
from transformers import (
    EarlyStoppingCallback,
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

args = options("generate")
kind, fault = args.kind, args.fault
torch.manual_seed(0)


class Statistics(nn.Module):
    """A classifier whose BatchNorm differs between ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))

    def forward(self, x: Any, labels: Any = None) -> Any:
        out = self.net(x)
        if fault == "outputs" and not self.training:
            return {"loss": out.sum(), "logits": out.repeat_interleave(400_000, 1)}
        return {"loss": nn.functional.cross_entropy(out, labels), "logits": out}


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self) -> Any:
        return iter(rows)


class Resets(TrainerCallback):
    def on_train_begin(self, arguments: Any, state: Any, control: Any, **objects: Any) -> None:
        if state.global_step:
            objects["optimizer"].state.clear()


def scores(prediction: Any) -> dict[str, float]:
    if fault == "decoding":
        names = {number: str(number) for number in range(32)}
        [names[int(token)] for row in prediction.label_ids for token in row]
    return {"score": 1.0}


generates = (kind == "generate" and fault not in ("outputs", "resets")) or fault == "decoding"
options: dict[str, Any] = {
    "output_dir": args.out, "max_steps": 8, "save_steps": 3, "per_device_train_batch_size": 2,
    "per_device_eval_batch_size": 2, "use_cpu": True, "report_to": [], "disable_tqdm": True,
    "logging_steps": 1, "eval_strategy": "steps", "eval_steps": 3, "learning_rate": 1e-3,
}  # fmt: skip
if fault == "old argument":
    options["evaluation_strategy"] = options.pop("eval_strategy")
if kind == "best":
    options |= {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss"}
model: Any
if generates:
    size = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    model = T5ForConditionalGeneration(T5Config(vocab_size=32, decoder_start_token_id=0, **size))
    model.generation_config = GenerationConfig(
        max_length=6, decoder_start_token_id=0, pad_token_id=0
    )
    labels = [3, 4, 5, -100] if fault == "decoding" else [3, 4, 5, 1]
    rows: list[Any] = [
        {"input_ids": torch.arange(6) + i % 9, "labels": torch.tensor(labels)} for i in range(40)
    ]
    training: Any = Seq2SeqTrainingArguments(**options, predict_with_generate=True)
    kinds: Any = Seq2SeqTrainer
else:
    model = Statistics()
    rows = [{"x": torch.randn(8), "labels": torch.tensor(i % 4)} for i in range(64)]
    training = TrainingArguments(**options)
    kinds = Trainer
callbacks: list[Any] = [EarlyStoppingCallback(3)] if kind == "best" else []
callbacks += [Resets()] if fault == "resets" else []
many = rows[: 24 if fault == "outputs" else 8]
trainer = kinds(
    model=model, args=training, train_dataset=Stream() if kind == "stream" else rows,
    eval_dataset=many, compute_metrics=scores, callbacks=callbacks,
)  # fmt: skip
trainer.train(
    resume_from_checkpoint=get_last_checkpoint(args.out) if os.path.isdir(args.out) else None
)
