"""A loop with accelerate after the manner of scripts without a trainer: folders by step or epoch."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, set_seed
from arguments import options
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Subset, TensorDataset
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
from transformers import get_scheduler

CLASSES, WIDTH, EVERY = 4, 32, 4


def texts(count: int, seed: int) -> TensorDataset:
    """Rows of tokens, three quarters of them from the range of the row's class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    own = 10 * labels[:, None] + torch.randint(0, 10, (count, 12), generator=generator)
    other = torch.randint(0, 40, (count, 12), generator=generator)
    chosen = torch.rand((count, 12), generator=generator) < 0.75
    return TensorDataset(torch.where(chosen, own, other), labels)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(40, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(WIDTH, CLASSES))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.tokens(tokens)).mean(dim=1))


def newest(out: Path) -> Path | None:
    found = [path for path in out.glob("*_*") if re.fullmatch(r"(step|epoch)_\d+", path.name)]
    return max(found, key=lambda path: int(path.name.split("_")[1]), default=None)


def main() -> None:
    args = options()
    out = Path(args.out)
    by_epoch = args.kind == "epochs"
    pieces = 2 if args.kind == "accumulates" or args.fault == "counts micro batches" else 1
    patience = InitProcessGroupKwargs(timeout=timedelta(seconds=40))
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        gradient_accumulation_steps=pieces,
        kwargs_handlers=[patience],
    )
    set_seed(11)
    train, held_out = texts(128, seed=1), texts(48, seed=2)
    each = 16 // accelerator.num_processes // pieces
    loader: Any = DataLoader(train, each, shuffle=True)
    if args.fault == "uneven shards":
        ends = range(72) if accelerator.is_main_process else range(72, 128)
        loader = DataLoader(Subset(train, ends), each, shuffle=True)
    evaluation = DataLoader(held_out, 16)
    model: Any = Classifier()
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=4e-3)
    epochs = 4 if by_epoch else 2
    updates = epochs * 8
    last = newest(out)
    if last and args.fault == "loads before it prepares":
        accelerator.load_state(str(last))
    model, optimizer = accelerator.prepare(model, optimizer)
    if args.fault != "uneven shards":
        loader = accelerator.prepare(loader)
    own_schedule = args.kind == "accumulates" or args.fault == "schedule aside"
    if own_schedule:
        schedule: Any = LambdaLR(optimizer, lambda n: min((n + 1) / 3, 1.0) * (1 - n / updates))
        if args.kind == "accumulates":
            accelerator.register_for_checkpointing(schedule)
    else:
        total = updates * accelerator.num_processes
        schedule = accelerator.prepare(get_scheduler("cosine", optimizer, total // 8, total))

    first_epoch, skipped, done = 0, 0, 0
    if last:
        if args.fault != "loads before it prepares":
            accelerator.load_state(str(last))
        number = int(last.name.split("_")[1])
        if by_epoch:
            first_epoch = number + 1
            done = first_epoch * len(loader)
        else:
            micro = number if args.fault == "counts micro batches" else number * pieces
            first_epoch, skipped = divmod(micro, len(loader))
            done = micro // pieces
        accelerator.print(f"goes on from {last.name} at epoch {first_epoch}, update {done}")

    scores = {"accuracy": MulticlassAccuracy(CLASSES), "f1": MulticlassF1Score(CLASSES)}

    def evaluate() -> None:
        model.eval()
        net = accelerator.unwrap_model(model)
        with torch.no_grad():
            for tokens, labels in evaluation:
                guesses = net(tokens.to(accelerator.device)).cpu()
                for score in scores.values():
                    score.update(guesses, labels)
        accelerator.print(done, {name: round(float(s.compute()), 3) for name, s in scores.items()})
        for score in scores.values():
            score.reset()
        if args.fault != "left in evaluation":
            model.train()

    model.train()
    for epoch in range(first_epoch, epochs):
        batches = loader
        if epoch == first_epoch and skipped:
            batches = accelerator.skip_first_batches(loader, skipped)
        for tokens, labels in batches:
            with accelerator.accumulate(model):
                guesses = model(tokens.to(accelerator.device))
                loss = nn.functional.cross_entropy(guesses, labels.to(accelerator.device))
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                if accelerator.sync_gradients or not own_schedule:
                    schedule.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                done += 1
                if done % EVERY == 0 and not by_epoch:
                    evaluate()
                    accelerator.save_state(str(out / f"step_{done}"))
        if by_epoch:
            evaluate()
            accelerator.save_state(str(out / f"epoch_{epoch}"))
    accelerator.print(f"ended at update {done}")


if __name__ == "__main__":
    main()
