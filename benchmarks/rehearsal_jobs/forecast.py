"""A LightningModule of the package lightning that forecasts a series; needs lightning."""

from __future__ import annotations

import os
import signal
from typing import Any

import lightning
import torch
from arguments import options
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = options()
kind, fault = args.kind, args.fault
lightning.seed_everything(1, verbose=False)
series = torch.sin(torch.arange(0, 400) / 7.0)
windows = series.unfold(0, 17, 1)


class Data(lightning.LightningDataModule):
    def train_dataloader(self) -> Any:
        rows = TensorDataset(windows[:320, :16], windows[:320, 16:])
        return DataLoader(rows, batch_size=16, shuffle=True)

    def val_dataloader(self) -> Any:
        rows = TensorDataset(windows[320:, :16], windows[320:, 16:])
        return DataLoader(rows, batch_size=4)


class Forecast(lightning.LightningModule):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(16, width), nn.LayerNorm(width), nn.GELU(),
                                 nn.Linear(width, 1))  # fmt: skip
        self.kept: list[Any] = []

    def training_step(self, batch: Any, index: int) -> Any:
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        predicted = self.net(batch[0])
        self.log("val_loss", nn.functional.mse_loss(predicted, batch[1]))
        if fault == "keeps":  # for a picture at the end, with all its quantiles
            self.kept.append(predicted.expand(-1, 2**20).contiguous())

    def on_validation_epoch_end(self) -> None:
        self.kept.clear()

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.05)
        if kind == "plateau":
            schedule: Any = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"},
            }
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=15)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Deaf(lightning.Callback):
    def on_train_start(self, trainer: Any, module: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


keeps = ModelCheckpoint(dirpath=args.out, every_n_train_steps=5, save_last=True,
                        save_weights_only=fault == "weights only")  # fmt: skip
callbacks: list[Any] = [keeps]
if fault == "deaf":
    callbacks.append(Deaf())
trainer = lightning.Trainer(
    max_steps=15, accelerator="cpu", devices=1, val_check_interval=5, logger=False,
    callbacks=callbacks, enable_progress_bar=False, default_root_dir=args.out,
    gradient_clip_val=1.0, accumulate_grad_batches=1, log_every_n_steps=5,
)  # fmt: skip
if kind == "monitor":
    callbacks.append(LearningRateMonitor())
last = os.path.join(args.out, "last.ckpt")
trainer.fit(Forecast(), Data(), ckpt_path=last if os.path.exists(last) else None)
