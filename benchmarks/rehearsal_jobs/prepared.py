"""A script for accelerate launch on two processes: rates by tokens seen, gathered losses."""

from __future__ import annotations

import os
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from arguments import options
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

args = options()
kind, fault = args.kind, args.fault
set_seed(7)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2 if kind == "accumulates" else 1)


class Sentences(Dataset):
    def __len__(self) -> int:
        return 210

    def __getitem__(self, at: int) -> Any:
        g = torch.Generator().manual_seed(at)
        return torch.randint(1, 40, (4 + at % 9,), generator=g)


def collate(rows: Any) -> Any:
    tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {"tokens": tokens, "labels": torch.where(tokens == 0, -100, tokens)}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(40, 16), nn.Linear(16, 40)

    def forward(self, tokens: Any, labels: Any) -> Any:
        logits = self.head(torch.tanh(self.embedding(tokens)))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Seen:
    """Tokens that were trained on, which the rate falls with."""

    tokens, step = 0, 0

    def state_dict(self) -> dict[str, int]:
        return (
            {"step": self.step} if fault == "tokens" else {"tokens": self.tokens, "step": self.step}
        )

    def load_state_dict(self, held: dict[str, int]) -> None:
        self.__dict__.update(held)


seen = Seen()
model: Any = Model()
optimizer: Any = torch.optim.AdamW(model.parameters(), lr=2e-3)
loader: Any = DataLoader(Sentences(), batch_size=5, shuffle=True, collate_fn=collate)
if fault == "own loader":
    model, optimizer = accelerator.prepare(model, optimizer)
else:
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
accelerator.register_for_checkpointing(seen)
found = sorted(name for name in os.listdir(args.out) if name.startswith("step"))
if found:
    accelerator.load_state(os.path.join(args.out, found[-1]))
rest = accelerator.skip_first_batches(loader, seen.step * accelerator.gradient_accumulation_steps)
for batch in rest:
    with accelerator.accumulate(model):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 / (1 + seen.tokens / 400)
        loss = model(**batch)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        count = torch.tensor(int((batch["labels"] >= 0).sum()))
        seen.tokens += int(accelerator.gather(count).sum())
    if not accelerator.sync_gradients:
        continue
    seen.step += 1
    if fault == "gather" and accelerator.is_main_process and seen.step % 5 == 0:
        accelerator.print("loss", accelerator.gather(loss.detach()).mean().item())
    elif fault != "gather" and seen.step % 5 == 0:
        mean = accelerator.gather(loss.detach()).mean()
        accelerator.print("loss", mean.item())
    if seen.step % 4 == 0:
        accelerator.save_state(os.path.join(args.out, f"step{seen.step:04}"))
    if seen.step == (10 if kind == "accumulates" else 14):
        break
accelerator.end_training()
