"""A picture classifier by epochs, with an average of its weights, as reference scripts have it."""

from __future__ import annotations

import copy
import os
import shutil
import time

import torch
import torch.nn.functional as F
from arguments import options
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, CLASSES, BATCH = 5, 4, 16


def pictures(count: int, seed: int) -> TensorDataset:
    """Noise around one pattern for each class."""
    patterns = torch.randn(CLASSES, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    noise = torch.randn(count, 3, 8, 8, generator=generator)
    return TensorDataset(0.6 * patterns[labels] + 0.8 * noise, labels)


def build_model() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 12), (12, 24)):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)]
        layers += [nn.SiLU(), nn.AvgPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.1), nn.Linear(24 * 4, CLASSES))


def build_ema(model: nn.Module) -> AveragedModel:
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)


def train_one_epoch(model, model_ema, loader, optimizer, epoch, args, lr_scheduler=None):
    if args.fault != "stays in eval" or epoch == 0:
        model.train()
    for index, (image, target) in enumerate(loader):
        loss = F.cross_entropy(model(image), target, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model_ema.update_parameters(model)
        if args.fault == "schedule by batch":
            lr_scheduler.step()
        rate = optimizer.param_groups[0]["lr"]
        time.sleep(0.1)  # as if the network were larger
        print(f"epoch {epoch} batch {index} loss {loss.item():.4f} lr {rate:.2e}", flush=True)


@torch.inference_mode()
def evaluate(model: nn.Module, loader: DataLoader, name: str) -> float:
    model.eval()
    total = sum(F.cross_entropy(model(x), y, reduction="sum").item() for x, y in loader)
    loss = total / len(loader.dataset)
    print(f"{name}: validation loss {loss:.4f}", flush=True)
    return loss


def save_on_master(state: dict, path: str) -> None:
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def main(args):
    torch.manual_seed(0)
    order = torch.Generator()
    train = DataLoader(pictures(3 * BATCH, 2), BATCH, shuffle=True, generator=order)
    valid = DataLoader(pictures(32, 3), BATCH)

    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    if args.kind == "plateau":
        lr_scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    else:
        lr_scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    model_ema = None if args.fault == "ema built late" else build_ema(model)

    start_epoch, best, waited, best_weights = 0, float("inf"), 0, None
    os.makedirs(args.out, exist_ok=True)
    last = os.path.join(args.out, "checkpoint.pth")
    if os.path.exists(last):
        checkpoint = torch.load(last, map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        lr_scheduler.load_state_dict(checkpoint["lr_scheduler"])
        if model_ema:
            model_ema.load_state_dict(checkpoint["model_ema"])
        start_epoch, best = checkpoint["epoch"] + 1, checkpoint["best"]
        waited, best_weights = checkpoint["waited"], checkpoint["best_weights"]
        print(f"continues with epoch {start_epoch}", flush=True)
    if model_ema is None:
        model_ema = build_ema(model)

    if args.kind == "evaluates first" and start_epoch == 0:
        evaluate(model, valid, "before training")

    for epoch in range(start_epoch, EPOCHS):
        if args.kind == "early stopping" and waited >= 3:
            print("no progress any more", flush=True)
            break
        order.manual_seed(100 + epoch)
        train_one_epoch(model, model_ema, train, optimizer, epoch, args, lr_scheduler)
        loss = evaluate(model, valid, "weights")
        evaluate(model_ema, valid, "average")
        if args.kind == "plateau":
            lr_scheduler.step(loss)
        elif args.fault != "schedule by batch":
            lr_scheduler.step()
        better = loss < best
        best, waited = min(best, loss), 0 if better else waited + 1
        if args.kind == "best kept" and better:
            best_weights = copy.deepcopy(model.state_dict())
        state = {
            "model": model.state_dict(), "model_ema": model_ema.state_dict(),
            "optimizer": optimizer.state_dict(), "lr_scheduler": lr_scheduler.state_dict(),
            "epoch": epoch, "best": best, "waited": waited, "best_weights": best_weights,
        }  # fmt: skip
        save_on_master(state, last)
        if better:
            shutil.copyfile(last, os.path.join(args.out, "model_best.pth"))

    if args.kind == "best kept" and best_weights is not None:
        model.load_state_dict(best_weights)
        evaluate(model, valid, "best")
        save_on_master(model.state_dict(), os.path.join(args.out, "final.pth"))
    print("done", flush=True)


if __name__ == "__main__":
    main(options())
