"""The guard in the trainers of transformers and Lightning, by their callbacks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainings import adamw, alarms, batches, loss_of, model, records  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the libraries' own
]


class ForTrainer(torch.nn.Module):  # type: ignore[misc, name-defined]
    """The small model, with the signature that transformers expects."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = model()

    def forward(self, x: Any, labels: Any) -> dict[str, Any]:
        return {"loss": loss_of(self.inner, x, labels)}


def fit(module: Any, out: Path, *, steps: int, **settings: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    from doctor.guard import GuardCallback

    rows = [{"x": x[0], "labels": y[0]} for x, y in batches(64)]
    arguments = transformers.TrainingArguments(
        str(out / "hf"), max_steps=steps, per_device_train_batch_size=2, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1, learning_rate=1e-3,
    )  # fmt: skip
    callback = GuardCallback(out=str(out), **settings)
    trainer = transformers.Trainer(module, arguments, train_dataset=rows, callbacks=[callback])
    try:
        trainer.train()
    finally:
        callback.close()
    return trainer, callback


def test_a_nan_that_transformers_logs_as_0_is_named(tmp_path: Path) -> None:
    module = ForTrainer()
    module.inner[4].weight.data[0, 0] = math.nan
    trainer, callback = fit(module, tmp_path, steps=6)
    assert [log["loss"] for log in trainer.state.log_history if "loss" in log] == [0.0] * 6
    assert alarms(tmp_path)["GRD001", "fail"] == 1
    assert callback.alarms == ("GRD001", "GRD002")
    (origin,) = records(tmp_path, "origin")
    assert "inner.4.weight" in origin["text"]


def test_stop_ends_the_trainer(tmp_path: Path) -> None:
    module = ForTrainer()
    module.inner[4].weight.data[0, 0] = math.nan
    trainer, _ = fit(module, tmp_path, steps=50, stop=True)
    assert trainer.state.global_step == 1


def test_a_healthy_trainer_raises_no_alarm(tmp_path: Path) -> None:
    fit(ForTrainer(), tmp_path, steps=30, all=True)
    assert alarms(tmp_path) == {}
    assert records(tmp_path, "state")[-1]["steps"] == 30


@pytest.mark.parametrize("poisoned", [False, True])
def test_lightning(poisoned: bool, tmp_path: Path) -> None:
    lightning = pytest.importorskip("pytorch_lightning")
    from doctor.guard.lightning import GuardCallback

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = model()

        def training_step(self, batch: Any, index: int) -> Any:
            return loss_of(self.inner, *batch) * (math.nan if poisoned and index == 4 else 1)

        def configure_optimizers(self) -> Any:
            return adamw(self.inner)

    callback = GuardCallback(out=str(tmp_path), stop=True)
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[callback],
    )  # fmt: skip
    try:
        trainer.fit(Module(), torch.utils.data.DataLoader(list(batches(25)), batch_size=None))
    finally:
        callback.close()
    assert trainer.global_step == (5 if poisoned else 25)
    assert alarms(tmp_path).get(("GRD001", "fail")) == (5 if poisoned else None)


@pytest.mark.gpu
def test_no_step_waits_for_the_gpu(tmp_path: Path) -> None:
    """After the first steps, which allocate pinned memory, nothing synchronizes."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    from trainings import guarded

    module = model().cuda()
    optimizer = adamw(module)
    rows = [(x.cuda(), y.cuda()) for x, y in batches(60)]

    def step(x: Any, y: Any) -> None:
        loss_of(module, x, y).backward()
        optimizer.step()
        optimizer.zero_grad()

    with guarded(tmp_path):
        for pair in rows[:10]:
            step(*pair)
        torch.cuda.set_sync_debug_mode("error")
        try:
            for pair in rows[10:]:
                step(*pair)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
        module.zero_grad()
    assert alarms(tmp_path) == {}
    assert records(tmp_path, "state")[-1]["losses"] > 0
