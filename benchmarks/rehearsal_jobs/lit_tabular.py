"""Rows of a table into classes with Lightning: metrics in a collection, averages in callbacks."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from arguments import options
from pytorch_lightning.callbacks import EarlyStopping, EMAWeightAveraging, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassAUROC

COLUMNS, CLASSES = 12, 4


class Table(pl.LightningDataModule):
    def __init__(self, evaluated: int = 64) -> None:
        super().__init__()
        self.evaluated = evaluated

    def setup(self, stage: str) -> None:
        generator = torch.Generator().manual_seed(1)
        rows = torch.randn(128 + self.evaluated, COLUMNS, generator=generator)
        classes = (rows @ torch.randn(COLUMNS, CLASSES, generator=generator)).argmax(dim=1)
        self.parts = [TensorDataset(rows[part], classes[part]) for part in self.slices()]

    def slices(self) -> tuple[slice, slice]:
        return slice(0, 128), slice(128, None)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.parts[0], 32, shuffle=True, drop_last=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.parts[1], max(32, self.evaluated // 4))


def network(width: int) -> nn.Sequential:
    deep = [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.1)]
    return nn.Sequential(nn.Linear(COLUMNS, width), nn.GELU(), *deep, nn.Linear(width, CLASSES))


class LitTable(pl.LightningModule):
    def __init__(self, width: int = 48, rate: float = 1e-2, cycle: bool = True, fault: str = ""):
        super().__init__()
        self.save_hyperparameters()
        self.net = network(width)
        if fault == "optimizer of the first net":
            self.early = torch.optim.AdamW(self.net.parameters(), lr=rate)
        known = 3 if fault == "three classes known" else CLASSES
        metrics = {"accuracy": MulticlassAccuracy(known), "auroc": MulticlassAUROC(known)}
        self.scores = MetricCollection(metrics, prefix="val_")
        self.outputs: list[torch.Tensor] = []

    def setup(self, stage: str) -> None:
        if self.hparams.fault == "optimizer of the first net":
            self.net = network(self.hparams.width)  # now that the columns are known

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1], label_smoothing=0.02)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        layers = [batch[0]]
        for layer in self.net:
            layers.append(layer(layers[-1]))
        guesses = layers[-1]
        self.scores.update(guesses.softmax(dim=1), batch[1])
        self.log("val_loss", nn.functional.cross_entropy(guesses, batch[1]), prog_bar=True)
        if self.hparams.fault == "outputs kept":
            self.outputs.extend(layers)

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.scores.compute())
        self.scores.reset()
        if self.outputs:
            self.log("val_spread", torch.stack([part.std() for part in self.outputs]).mean())

    def configure_optimizers(self) -> Any:
        if self.hparams.fault == "optimizer of the first net":
            return self.early
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=self.hparams.rate)
        if not self.hparams.cycle:
            return optimizer
        steps = self.trainer.estimated_stepping_batches
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=int(steps))
        return [optimizer], [{"scheduler": cosine, "interval": "step"}]


class Average(pl.Callback):
    """Follows the weights with an exponential average, and evaluates with it."""

    def __init__(self, decay: float = 0.9) -> None:
        self.decay = decay
        self.ema: nn.Module | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if self.ema is None:
            self.ema = copy.deepcopy(pl_module.net).requires_grad_(False)
        self.ema.to(pl_module.device)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        with torch.no_grad():
            pairs = zip(self.ema.parameters(), pl_module.net.parameters(), strict=True)
            for mine, new in pairs:
                mine.lerp_(new, 1 - self.decay)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        pl_module.net, self.ema = self.ema.eval(), pl_module.net

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        pl_module.net, self.ema = self.ema, pl_module.net


class KeptAverage(Average):
    def state_dict(self) -> dict[str, Any]:
        return {"ema": self.ema.state_dict(), "decay": self.decay}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        width = state_dict["ema"]["0.bias"].numel()
        self.ema = network(width).requires_grad_(False)
        self.ema.load_state_dict(state_dict["ema"])


def main() -> None:
    args = options()
    pl.seed_everything(31, verbose=False)
    folder = Path(args.out, "checkpoints")
    callbacks: list[pl.Callback] = [
        ModelCheckpoint(folder, monitor="val_loss", save_top_k=3, save_last=True)
    ]
    if args.kind == "average":
        callbacks.append(KeptAverage())
    elif args.kind == "library's average":
        callbacks.append(EMAWeightAveraging(decay=0.8))
    elif args.kind == "stops early":
        callbacks.append(EarlyStopping("val_accuracy", mode="max", stopping_threshold=0.75))
    if args.fault == "average lost":
        callbacks.append(Average())
    keeps = args.fault == "outputs kept"
    early = args.kind == "stops early"
    model = LitTable(256 if keeps else 48, 4e-3 if early else 1e-2, not early, args.fault)
    last: Path | None = folder / "last.ckpt"
    if args.fault == "only the weights go on" and last.exists():
        model = LitTable.load_from_checkpoint(last)
        last = None
    trainer = pl.Trainer(
        max_epochs=8 if early else 4, accelerator="auto", devices=1,
        default_root_dir=args.out, logger=CSVLogger(args.out), callbacks=callbacks,
        log_every_n_steps=1, num_sanity_val_steps=0, val_check_interval=2 if keeps else None,
        gradient_clip_val=1.0, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    data = Table(8192 if keeps else 64)
    trainer.fit(model, datamodule=data, ckpt_path=None if last is None else "last")
    values = {name: round(float(value), 3) for name, value in trainer.callback_metrics.items()}
    print(f"ended at step {trainer.global_step}: {values}")


if __name__ == "__main__":
    main()
