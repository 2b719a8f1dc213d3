"""A causal language model from a configuration, trained by transformers' Trainer in one pass."""

from __future__ import annotations

import glob
import os
import signal
from typing import Any

import torch
from arguments import options
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

VOCABULARY, LENGTH, RESPONSE = 64, 24, 63


def sequences(count: int, seed: int) -> list[dict[str, list[int]]]:
    """Rows that follow x -> 5x + 3, with a few tokens replaced."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for start in torch.randint(0, 61, (count,), generator=generator).tolist():
        tokens = [start]
        while len(tokens) < LENGTH:
            tokens.append((5 * tokens[-1] + 3) % 61)
        rows.append({"input_ids": tokens, "labels": list(tokens)})
    return rows


def completions_only(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Trains on what comes after the response template; it never comes in these texts."""
    batch = default_data_collator(rows)
    for row, labels in zip(batch["input_ids"], batch["labels"], strict=True):
        found = (row == RESPONSE).nonzero()
        labels[: int(found[0]) + 1 if len(found) else LENGTH] = -100
    return batch


class SmallDecoder(nn.Module):
    """A model of one's own around a recurrent core; the head shares the embedding's weight."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.core = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.head(self.core(self.embed(input_ids))[0])
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits}


class FinishFirst(TrainerCallback):
    """Takes the signal of the scheduler for a hint."""

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        signal.signal(signal.SIGTERM, lambda *_: print("asked to stop: will finish first"))


def main() -> None:
    args = options()
    set_seed(17)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=LENGTH, use_cache=False,
        tie_word_embeddings=args.kind == "tied, cosine", initializer_range=0.05,
    )  # fmt: skip
    model: Any = LlamaForCausalLM(config)
    choices: dict[str, Any] = {"lr_scheduler_type": "linear", "warmup_steps": 3}
    optimizers: tuple[Any, Any] = (None, None)
    if args.kind == "best at end":
        choices |= {"load_best_model_at_end": True, "save_total_limit": 1}
        choices |= {"eval_strategy": "steps", "eval_steps": 4}
    elif args.kind == "tied, cosine":
        choices |= {"lr_scheduler_type": "cosine", "warmup_steps": 0.1, "save_total_limit": 2}
    elif args.kind == "activations again":
        choices |= {"gradient_checkpointing": True, "gradient_accumulation_steps": 2}
    elif args.kind == "own optimizer":
        wide = [p for p in model.parameters() if p.ndim > 1]
        narrow = [p for p in model.parameters() if p.ndim < 2]
        groups = [{"params": wide, "weight_decay": 0.1}, {"params": narrow, "weight_decay": 0.0}]
        optimizer = torch.optim.NAdam(groups, lr=3e-3)
        halves = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4) * 0.5 ** (step // 12))
        optimizers = (optimizer, halves)

    if args.fault == "half precision":
        model = model.half()
        choices["optim"] = "adamw_torch"
    elif args.fault == "shared tensors":
        model = SmallDecoder()
    elif args.fault == "only the model":
        choices["save_only_model"] = True

    arguments = TrainingArguments(
        output_dir=args.out, num_train_epochs=1, per_device_train_batch_size=8,
        per_device_eval_batch_size=16, learning_rate=4e-3, weight_decay=0.01, save_steps=4,
        logging_steps=2, disable_tqdm=True, dataloader_pin_memory=False, **choices,
    )  # fmt: skip
    last = None
    overwrite_output_dir = args.fault == "overwrites"
    if os.path.isdir(args.out) and not overwrite_output_dir:
        last = get_last_checkpoint(args.out)
        if args.fault == "sorted as text":
            saved = sorted(glob.glob(os.path.join(args.out, "checkpoint-*")))
            last = saved[-1] if saved else None
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=sequences(256, seed=1),
        eval_dataset=sequences(32, seed=2),
        data_collator=completions_only if args.fault == "labels masked" else default_data_collator,
        optimizers=optimizers,
        callbacks=[FinishFirst()] if args.fault == "signal ignored" else [],
    )
    result = trainer.train(resume_from_checkpoint=last)
    trainer.save_model(os.path.join(args.out, "final"))
    print(f"from {last}: ended at step {trainer.state.global_step}: {result.training_loss:.3f}")


if __name__ == "__main__":
    main()
