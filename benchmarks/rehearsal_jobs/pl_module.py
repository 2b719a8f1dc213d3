"""A LightningModule, trained and resumed by the Trainer's own checkpoints."""

from __future__ import annotations

import os
from typing import Any

import pytorch_lightning as lightning
import torch
from arguments import options
from torch import nn

args = options()


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))

    def training_step(self, batch: Any, index: int) -> Any:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, index: int) -> None:
        if args.fault == "validation":
            raise KeyError("labels")
        self.net(batch[0])

    def on_load_checkpoint(self, checkpoint: Any) -> None:
        if args.fault == "optimizer":
            checkpoint["optimizer_states"] = [torch.optim.AdamW(self.parameters()).state_dict()]

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 10)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


lightning.seed_everything(0)
rows = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,)))
loader = torch.utils.data.DataLoader(rows, batch_size=4)
keeps = lightning.callbacks.ModelCheckpoint(
    dirpath=args.out, every_n_train_steps=3, save_last=True, save_top_k=-1
)
trainer = lightning.Trainer(
    max_steps=10, accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[keeps],
    val_check_interval=5, num_sanity_val_steps=0 if args.fault else 1, default_root_dir=args.out,
)  # fmt: skip
last = os.path.join(args.out, "last.ckpt")
found = last if os.path.exists(last) and args.fault != "ckpt_path" else None
module = Module()
if args.fault == "ckpt_path" and os.path.exists(last):
    module.load_state_dict(torch.load(last, weights_only=False)["state_dict"])
trainer.fit(module, loader, loader, ckpt_path=found)
