"""An autoencoder and a probe of its code, each with an optimizer: Lightning by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from arguments import options
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.regression import MeanSquaredError, R2Score

SENSORS, CODE = 16, 4


def readings(count: int, seed: int) -> TensorDataset:
    """Sensors far from zero that depend on a few causes; the first cause is the probe's target."""
    generator = torch.Generator().manual_seed(7)
    mixing = torch.randn(CODE, SENSORS, generator=generator)
    causes = torch.randn(count, CODE, generator=generator.manual_seed(seed))
    return TensorDataset(40 + 5 * causes @ mixing, causes[:, :1])


class RunningScale(nn.Module):
    """Brings its input to mean zero and width one, by what it has seen in training."""

    def __init__(self, size: int, persistent: bool) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size), persistent=persistent)
        self.register_buffer("square", torch.ones(size), persistent=persistent)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += 1
            share = 1 / self.seen.clamp(max=50)
            self.mean.lerp_(rows.mean(dim=0), share)
            self.square.lerp_(rows.square().mean(dim=0), share)
        return (rows - self.mean) / (self.square - self.mean.square()).clamp(min=1e-3).sqrt()


class Probed(pl.LightningModule):
    def __init__(self, every: int, fault: str) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.every, self.fault = every, fault
        self.scale = RunningScale(SENSORS, persistent=fault != "scale not saved")
        self.encoder = nn.Sequential(nn.Linear(SENSORS, 32), nn.Tanh(), nn.Linear(32, CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, 32), nn.Tanh(), nn.Linear(32, SENSORS))
        self.probe = nn.Linear(CODE, 1)
        self.error, self.fit_of_probe = MeanSquaredError(), R2Score()

    def encode(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scaled = self.scale(rows)
        code = self.encoder(scaled)
        if self.fault == "code detached":
            code = code.detach()  # the probe must not shape the code
        return scaled, code

    def training_step(self, batch: Any, index: int) -> None:
        rows, causes = batch
        main, side = self.optimizers()
        scaled, code = self.encode(rows)
        rebuilt = nn.functional.mse_loss(self.decoder(code), scaled)
        self.manual_backward(rebuilt / self.every)
        guessed = nn.functional.mse_loss(self.probe(code.detach()), causes)
        self.manual_backward(guessed / self.every)
        if (index + 1) % self.every == 0:
            for optimizer in (main, side):
                self.clip_gradients(optimizer, 1.0, "norm")
                optimizer.step()
                optimizer.zero_grad()
        self.log_dict({"rebuilt": rebuilt, "guessed": guessed}, on_step=True)

    def on_train_epoch_end(self) -> None:
        for schedule in self.lr_schedulers():
            schedule.step()

    def validation_step(self, batch: Any, _: int) -> None:
        scaled, code = self.encode(batch[0])
        self.error.update(self.decoder(code), scaled)
        self.fit_of_probe.update(self.probe(code), batch[1])
        self.log_dict({"val_error": self.error, "val_r2": self.fit_of_probe})

    def configure_optimizers(self) -> Any:
        whole = [*self.encoder.parameters(), *self.decoder.parameters()]
        main = torch.optim.Adam(whole, lr=1e-2)
        side = torch.optim.SGD(self.probe.parameters(), lr=5e-2, momentum=0.9)
        return [main, side], [ExponentialLR(main, 0.8), ExponentialLR(side, 0.9)]


def main() -> None:
    args = options()
    pl.seed_everything(41, verbose=False)
    every = 2 if args.kind == "accumulates" else 1
    saver = ModelCheckpoint(Path(args.out, "checkpoints"), save_last="link", save_top_k=-1)
    trainer = pl.Trainer(
        max_epochs=4, accelerator="auto", devices=1, default_root_dir=args.out, logger=False,
        callbacks=[saver], enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    train = DataLoader(readings(128 * every, seed=1), 32, shuffle=True)
    held_out = DataLoader(readings(64, seed=2), 32)
    trainer.fit(Probed(every, args.fault), train, held_out, ckpt_path="last")
    values = {name: round(float(value), 3) for name, value in trainer.callback_metrics.items()}
    print(f"ended at step {trainer.global_step}: {values}")


if __name__ == "__main__":
    main()
