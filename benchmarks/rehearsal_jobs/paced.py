"""Trainings of minutes, for the pace: ten shapes of work with steps of some tenths of a second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from arguments import options
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

args = options(steps=64, every=20)
kind = args.kind
torch.manual_seed(0)
ROWS, CLASSES = 2048, 64


class Rows(Dataset):
    """Rows that are made when they are read, as decoding and cropping make them."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        made = torch.Generator().manual_seed(index)
        if kind in ("images", "augmented"):
            image = torch.rand(3, 40, 40, generator=made)
            if kind == "augmented":
                for _ in range(4):
                    image = F.avg_pool2d(image[None], 3, 1, 1)[0]
            return image[:, 4:36, 4:36], index % CLASSES
        length = 128
        if kind == "lengths":
            length = int(torch.randint(32, 160, (), generator=made))
        return torch.randint(0, 512, (length,), generator=made), index % CLASSES


def pad(rows: Any) -> Any:
    rows_, labels = zip(*rows, strict=True)
    return nn.utils.rnn.pad_sequence(list(rows_), batch_first=True), torch.tensor(labels)


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(512, 256)
        make: Callable[[], nn.Module] = lambda: nn.TransformerEncoderLayer(  # noqa: E731
            256, 4, 1024, batch_first=True, dropout=0.1
        )
        self.layers = nn.ModuleList(make() for _ in range(3))
        self.head = nn.Linear(256, CLASSES)

    def forward(self, x: Any) -> Any:
        x = self.embed(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if kind == "recomputed" else layer(x)
        return self.head(x.mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(512, 256)
        self.cells = nn.LSTM(256, 384, 2, batch_first=True)
        self.head = nn.Linear(384, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.cells(self.embed(x))[0][:, -1])


def images() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 48), (48, 96), (96, 192)):
        layers += [nn.Conv2d(before, after, 3, 1, 1), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(192 * 16, CLASSES))


def wide() -> nn.Module:
    return nn.Sequential(
        nn.Embedding(512, 16), nn.Flatten(), nn.Linear(2048, 2048), nn.GELU(),
        nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, CLASSES),
    )  # fmt: skip


models: dict[str, Callable[[], nn.Module]] = {
    "images": images, "augmented": images, "recurrent": Recurrent, "wide": wide,
}  # fmt: skip
model = models.get(kind, Text)()
optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
if kind == "momentum":
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
accumulated = 4 if kind == "accumulates" else 1
size = {"wide": 128, "accumulates": 4, "images": 32, "augmented": 32}.get(kind, 16)
loader = DataLoader(
    Rows(), batch_size=size, shuffle=True, drop_last=True, collate_fn=pad if size == 16 else None,
    num_workers=1 if kind == "workers" else 0,
)  # fmt: skip


def batches() -> Iterator[Any]:
    while True:
        yield from loader


def evaluate(source: Iterator[Any]) -> None:
    model.eval()
    with torch.no_grad():
        for _ in range(4):
            model(next(source)[0])
    model.train()


began = time.monotonic()
source = batches()
for step in range(1, args.steps + 1):
    for _ in range(accumulated):
        rows, labels = next(source)
        (F.cross_entropy(model(rows), labels) / accumulated).backward()
    optimizer.step()
    optimizer.zero_grad()
    if kind == "evaluates" and step % args.every == 0:
        evaluate(source)
    if step % args.every == 0:
        torch.save({"model": model.state_dict(), "step": step}, os.path.join(args.out, "last.pt"))
print(f"took {time.monotonic() - began:.3f} s", flush=True)
