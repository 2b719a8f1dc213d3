"""A text classifier with class weights: a Trainer of its own loss, with metrics and callbacks."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from arguments import options
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EvalPrediction,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.trainer_utils import get_last_checkpoint

PAD, CLASSES = 0, 3


class Reviews(Dataset):
    """Texts of different length; most tokens of a text come from the range of its class."""

    def __init__(self, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(count):
            label = int(rng.choice(CLASSES, p=[0.5, 0.3, 0.2]))
            length = int(rng.integers(6, 24))
            own = rng.integers(10 + 20 * label, 30 + 20 * label, length)
            text = np.where(rng.random(length) < 0.9, own, rng.integers(70, 100, length))
            self.rows.append({"input_ids": text.tolist(), "label": label})

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    longest = max(len(row["input_ids"]) for row in rows)
    padded = [row["input_ids"] + [PAD] * (longest - len(row["input_ids"])) for row in rows]
    tokens = torch.tensor(padded)
    labels = torch.tensor([row["label"] for row in rows])
    return {"input_ids": tokens, "attention_mask": (tokens != PAD).long(), "labels": labels}


class WithLength(BertForSequenceClassification):
    """Also estimates how long the text is, where that is asked for."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.length = nn.Linear(config.num_labels, 1)
        self.post_init()

    def forward(self, lengths: torch.Tensor | None = None, **batch: Any) -> Any:
        outputs = super().forward(**batch)
        if lengths is None:
            return outputs
        error = (self.length(outputs.logits).squeeze(-1) - lengths).square().mean()
        return SequenceClassifierOutput(loss=error, logits=outputs.logits)


class WeightedTrainer(Trainer):
    weights = torch.tensor([0.6, 1.0, 1.5])
    same_batches = False
    guess_lengths = False

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        labels = inputs.pop("labels")
        if self.guess_lengths and self.is_world_process_zero():
            inputs["lengths"] = inputs["attention_mask"].float().mean(dim=1)
        outputs = model(**inputs)
        weights = self.weights.to(outputs.logits.device)
        loss = nn.functional.cross_entropy(outputs.logits, labels, weight=weights)
        if self.guess_lengths and outputs.loss is not None:
            loss = loss + 0.1 * outputs.loss
        return (loss, outputs) if return_outputs else loss

    def get_train_dataloader(self) -> DataLoader:
        if not self.same_batches:
            return super().get_train_dataloader()
        size = self.args.train_batch_size
        return DataLoader(self.train_dataset, size, shuffle=True, collate_fn=collate)


class GoodEnough(TrainerCallback):
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if kwargs["metrics"]["eval_accuracy"] >= 0.9:
            control.should_training_stop = True


class UnitRows(TrainerCallback):
    """Keeps the rows of the last layer at norm one; the main process looks after it."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            weight = kwargs["model"].classifier.weight
            weight.data.div_(weight.data.norm(dim=1, keepdim=True))


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    guesses = np.argmax(prediction.predictions, axis=-1)
    return {"accuracy": float((guesses == prediction.label_ids).mean())}


def main() -> None:
    args = options()
    set_seed(5)
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=32, num_labels=CLASSES, initializer_range=0.1,
        output_hidden_states=args.fault == "metrics of a tuple",
    )  # fmt: skip
    kind = WithLength if args.fault == "unused on one rank" else BertForSequenceClassification
    model = kind(config)
    if args.kind == "frozen encoder":
        for part in (model.bert.embeddings, model.bert.encoder):
            part.requires_grad_(False)
    choices: dict[str, Any] = {"num_train_epochs": 4, "metric_for_best_model": "accuracy"}
    choices |= {"ddp_find_unused_parameters": False, "ddp_timeout": 30}
    callbacks: list[TrainerCallback] = []
    if args.kind == "stops early":
        choices |= {"num_train_epochs": 8, "load_best_model_at_end": True}
        callbacks.append(GoodEnough())
    elif args.kind == "length groups":
        choices["train_sampling_strategy"] = "group_by_length"
    elif args.kind == "plateau":
        choices |= {"lr_scheduler_type": "reduce_lr_on_plateau", "metric_for_best_model": "loss"}
        choices |= {"lr_scheduler_kwargs": {"patience": 0, "factor": 0.5}}
    if args.fault == "best metric missing":
        choices |= {"metric_for_best_model": "f1", "load_best_model_at_end": True}
    elif args.fault == "unit rows of rank 0":
        callbacks.append(UnitRows())
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    arguments = TrainingArguments(
        output_dir=args.out, per_device_train_batch_size=16 // ranks, learning_rate=2e-2 if args.kind == "frozen encoder" else 5e-3,
        eval_strategy="epoch", save_strategy="epoch", logging_steps=1, disable_tqdm=True,
        remove_unused_columns=False, label_names=["labels"], dataloader_pin_memory=False,
        use_cpu=not torch.cuda.is_available(), **choices,
    )  # fmt: skip
    trainer = WeightedTrainer(
        model=model, args=arguments, data_collator=collate, compute_metrics=accuracy,
        train_dataset=Reviews(64, seed=1), eval_dataset=Reviews(32, seed=2), callbacks=callbacks,
    )  # fmt: skip
    trainer.same_batches = args.fault == "same batches"
    trainer.guess_lengths = args.fault == "unused on one rank"
    last = get_last_checkpoint(args.out) if os.path.isdir(args.out) else None
    trainer.train(resume_from_checkpoint=last)
    print(f"from {last}: ended at step {trainer.state.global_step}, {trainer.evaluate()}")


if __name__ == "__main__":
    main()
