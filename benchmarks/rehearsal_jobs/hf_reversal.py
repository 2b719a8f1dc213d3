"""Seq2SeqTrainer with generation in its evaluation: a small T5 learns to write digits reversed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from arguments import options
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

PAD, END, FIRST = 0, 1, 2
IGNORED = -100


def numbers(count: int, seed: int) -> list[dict[str, list[int]]]:
    """Numbers of three to six digits, each with its digits from the back."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        digits = (rng.integers(0, 10, rng.integers(3, 7)) + FIRST).tolist()
        rows.append({"input_ids": [*digits, END], "labels": [*digits[::-1], END]})
    return rows


@dataclass
class PadBoth:
    """Pads inputs and labels; a model that computes no loss itself gets its decoder's inputs."""

    model: T5ForConditionalGeneration

    def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        def pad(name: str, value: int) -> torch.Tensor:
            longest = max(len(row[name]) for row in rows)
            return torch.tensor([row[name] + [value] * (longest - len(row[name])) for row in rows])

        batch = {"input_ids": pad("input_ids", PAD), "labels": pad("labels", IGNORED)}
        batch["attention_mask"] = (batch["input_ids"] != PAD).long()
        batch["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(
            labels=batch["labels"]
        )
        return batch


def spell(tokens: Any) -> str:
    return "".join(str(token - FIRST) for token in tokens if token >= FIRST)


def exact(prediction: Any) -> dict[str, float]:
    written, wanted = prediction.predictions, prediction.label_ids
    written = np.where(written == IGNORED, PAD, written)
    wanted = np.where(wanted == IGNORED, PAD, wanted)
    pairs = [(spell(a), spell(b)) for a, b in zip(written, wanted, strict=True)]
    near = [abs(len(a) - len(b)) <= 1 for a, b in pairs]
    return {"exact": float(np.mean([a == b for a, b in pairs])), "length": float(np.mean(near))}


class LeanTrainer(Seq2SeqTrainer):
    """Writes the weights that are worth a file: the list is from the days of one block."""

    parts = ("shared.", "encoder.block.0.", "encoder.final", "decoder.block.0.", "decoder.final")

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        model = self.accelerator.unwrap_model(self.model)
        kept = {n: t for n, t in model.state_dict().items() if n.startswith(self.parts)}
        safetensors.torch.save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
        model.config.save_pretrained(folder)


def main() -> None:
    args = options()
    set_seed(3)
    config = T5Config(
        vocab_size=16, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2,
        pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=PAD, dropout_rate=0.0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    choices: dict[str, Any] = {"optim": "adamw_torch", "warmup_steps": 2}
    if args.kind == "smoothed, evaluates first":
        choices |= {"label_smoothing_factor": 0.1, "eval_on_start": True}
    elif args.kind == "adafactor, best at end":
        choices = {"optim": "adafactor", "lr_scheduler_type": "constant"}
        choices |= {"load_best_model_at_end": True, "metric_for_best_model": "length"}
        choices |= {"greater_is_better": True, "save_total_limit": 2}
    if args.fault == "several answers, one beam":
        model.generation_config.num_return_sequences = 3
    arguments = Seq2SeqTrainingArguments(
        output_dir=args.out, num_train_epochs=4, per_device_train_batch_size=16,
        per_device_eval_batch_size=16, learning_rate=5e-3, predict_with_generate=True,
        generation_max_length=9, generation_num_beams=1, eval_strategy="epoch",
        save_strategy="epoch", logging_steps=2, disable_tqdm=True, dataloader_pin_memory=False,
        **choices,
    )  # fmt: skip
    trainer_class = LeanTrainer if args.fault == "part saved" else Seq2SeqTrainer
    trainer = trainer_class(
        model=model, args=arguments, data_collator=PadBoth(model), compute_metrics=exact,
        train_dataset=numbers(64, seed=1), eval_dataset=numbers(16, seed=2),
    )  # fmt: skip
    last = get_last_checkpoint(args.out) if os.path.isdir(args.out) else None
    result = trainer.train(resume_from_checkpoint=last)
    print(f"from {last}: ended at step {trainer.state.global_step}: {result.training_loss:.3f}")


if __name__ == "__main__":
    main()
