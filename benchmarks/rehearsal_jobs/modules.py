"""LightningModules that optimize by hand, on two devices, with averaged weights."""

from __future__ import annotations

import os
from typing import Any

import pytorch_lightning as lightning
import torch
from arguments import options
from torch import nn

args = options("by hand")
kind, fault = args.kind, args.fault


class Module(lightning.LightningModule):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, width), nn.BatchNorm1d(width), nn.Linear(width, 4))
        self.judge = nn.Linear(4, 1)
        self.automatic_optimization = kind != "by hand"

    def training_step(self, batch: Any, index: int) -> Any:
        if fault == "rank raises" and self.global_rank == 1 and index == 3:
            raise ValueError("Expected input batch_size (4) to match target batch_size (3)")
        out = self.net(batch[0])
        loss = nn.functional.cross_entropy(out, batch[1]) + self.judge(out).square().mean()
        if self.automatic_optimization:
            return loss
        optimizers: Any = self.optimizers()
        for each in optimizers:
            each.zero_grad()
        self.manual_backward(loss)
        for each in optimizers:
            each.step()
        return None

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val_loss", self.net(batch[0]).mean(), sync_dist=True)

    def configure_optimizers(self) -> Any:
        if kind == "by hand":
            pair = self.net.parameters(), self.judge.parameters()
            return [torch.optim.AdamW(part, lr=1e-3) for part in pair], []
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


lightning.seed_everything(0)
rows = torch.utils.data.TensorDataset(torch.randn(96, 8), torch.randint(0, 4, (96,)))
loader = torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True)
keeps = lightning.callbacks.ModelCheckpoint(
    dirpath=args.out,
    every_n_train_steps=4,
    save_last="link",
    save_top_k=2,
    monitor="step",
    mode="max",
)
callbacks: list[Any] = [keeps, lightning.callbacks.LearningRateMonitor()]
if kind == "averaged":
    from pytorch_lightning.callbacks import EMAWeightAveraging

    callbacks.append(EMAWeightAveraging(decay=0.9))
devices = 2 if kind == "two devices" or fault == "rank raises" else 1
trainer = lightning.Trainer(
    max_steps=12, accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto",
    logger=lightning.loggers.CSVLogger(args.out), enable_progress_bar=False, callbacks=callbacks,
    val_check_interval=6, default_root_dir=args.out, log_every_n_steps=2,
)  # fmt: skip
last = os.path.join(args.out, "last.ckpt")
module = Module()
if fault == "weights from the file" and os.path.exists(last):
    module = Module.load_from_checkpoint(last, weights_only=False)
    trainer.fit(module, loader, loader)
else:
    trainer.fit(module, loader, loader, ckpt_path=last if os.path.exists(last) else None)
