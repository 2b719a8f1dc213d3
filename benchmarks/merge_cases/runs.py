"""Runs that are to be continued."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch  # noqa: TID253

from doctor.checkpoint.records import Plan
from merge_cases import Case, model


def loop(steps: int = 8, total: int = 20) -> dict[str, Any]:
    """The state of a plain loop."""
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=total)
    for _ in range(steps):
        net(torch.ones(1, 8)).sum().backward()
        optimizer.step()
        scheduler.step()
    return {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng_state": torch.get_rng_state(),
        "step": steps,
    }


def plain_run(root: Path, change: Callable[[dict[str, Any]], Any], **plan: Any) -> dict[str, Any]:
    state = loop()
    change(state)
    torch.save(state, root / "ckpt.pt")
    return {"path": str(root / "ckpt.pt"), "plan": Plan(**plan)}


TRAINED: dict[str, Path] = {}


def trainer_run(root: Path, change: Callable[[Path], Any], **plan: Any) -> dict[str, Any]:
    """A directory that Trainer wrote at step 10 of 20, changed."""
    from transformers import Trainer, TrainingArguments

    if "trainer" not in TRAINED:
        place = Path(tempfile.mkdtemp(prefix="merge-corpus-"))
        data = [dict.fromkeys(("input_ids", "labels"), torch.arange(16))] * 64
        arguments = TrainingArguments(
            str(place), max_steps=20, save_steps=10, per_device_train_batch_size=4, report_to=[],
            use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        Trainer(model(), arguments, train_dataset=data).train()
        TRAINED["trainer"] = place
    path = root / "checkpoint-10"
    shutil.copytree(TRAINED["trainer"] / "checkpoint-10", path)
    return {"path": str(change(path) or path), "plan": Plan(**plan)}


def accelerate_run(root: Path, change: Callable[[Path], Any], **plan: Any) -> dict[str, Any]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    net, optimizer, scheduler = accelerator.prepare(net, optimizer, scheduler)
    for _ in range(8):
        accelerator.backward(net(torch.ones(1, 8)).sum())
        optimizer.step()
        scheduler.step()
    accelerator.save_state(str(root / "state"))
    change(root / "state")
    return {"path": str(root / "state"), "plan": Plan(**plan)}


def lightning_run(root: Path, change: Callable[[dict[str, Any]], Any], **plan: Any) -> Any:
    """A checkpoint of Lightning's Trainer at step 8, changed."""
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(8, 8)

        def training_step(self, batch: Any) -> torch.Tensor:
            return self.net(batch).square().mean()

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters())
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    trainer = lightning.Trainer(
        max_steps=8, accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_checkpointing=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.ones(64, 8), batch_size=8))
    trainer.save_checkpoint(root / "last.ckpt")
    state = torch.load(root / "last.ckpt", weights_only=False)
    change(state)
    torch.save(state, root / "last.ckpt")
    return {"path": str(root / "last.ckpt"), "plan": Plan(**plan)}


def nanogpt_run(root: Path, change: Callable[[dict[str, Any]], Any], **plan: Any) -> Any:
    """As nanoGPT's train.py saves it: no scheduler, the step as iter_num."""
    state = loop()
    saved = {
        "model": state["model"], "optimizer": state["optimizer"], "iter_num": 8,
        "model_args": {"n_layer": 1}, "best_val_loss": 3.0, "config": {"batch_size": 12},
    }  # fmt: skip
    change(saved)
    torch.save(saved, root / "ckpt.pt")
    return {"path": str(root / "ckpt.pt"), "plan": Plan(**plan)}


def distributed_run(root: Path, names: tuple[str, ...], **plan: Any) -> dict[str, Any]:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(8):
        net(torch.ones(1, 8)).sum().backward()
        optimizer.step()
    held, state = get_state_dict(net, optimizer)
    whole = {"model": held, "optimizer": state, "train_state": {"step": 8}}
    dcp.save({name: whole[name] for name in names}, checkpoint_id=str(root / "step-8"))
    return {"path": str(root / "step-8"), "plan": Plan(**plan)}


def _state(**fields: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        file = path / "trainer_state.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return change


def _without(*names: str) -> Callable[[Path], None]:
    return lambda path: [(path / name).unlink() for name in names] and None


def _ranked(*ranks: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        for rank in ranks:
            shutil.copy(path / "rng_state.pth", path / f"rng_state_{rank}.pth")
        (path / "rng_state.pth").unlink()

    return change


def _cut_scheduler(path: Path) -> None:
    (path / "scheduler.pt").write_bytes(b"\x80\x02")


def nothing(_: Any) -> None:
    """No change."""


def runs() -> Iterator[Case]:
    whole = ("model", "optimizer", "train_state")
    yield Case("run: plain", "healthy", lambda r: plain_run(r, nothing))
    yield Case("run: plain, 20 steps", "healthy", lambda r: plain_run(r, nothing, max_steps=20))
    yield Case("run: Trainer", "healthy", lambda r: trainer_run(r, nothing))
    yield Case(
        "run: Trainer, same plan", "healthy",
        lambda r: trainer_run(r, nothing, gpus=1, batch_size=4, max_steps=20),
    )  # fmt: skip
    yield Case("run: Trainer, longer", "healthy", lambda r: trainer_run(r, nothing, max_steps=40))
    yield Case(
        "run: Trainer of 4", "healthy", lambda r: trainer_run(r, _ranked(0, 1, 2, 3), gpus=4)
    )
    yield Case("run: accelerate", "healthy", lambda r: accelerate_run(r, nothing, gpus=1))
    yield Case("run: distributed", "healthy", lambda r: distributed_run(r, whole))
    yield Case("run: Lightning", "healthy", lambda r: lightning_run(r, nothing))
    yield Case("run: Lightning, longer", "healthy", lambda r: lightning_run(r, nothing, gpus=1))
    yield Case("run: nanoGPT", "healthy", lambda r: nanogpt_run(r, nothing))
    drop = lambda *keys: lambda state: [state.pop(key) for key in keys]  # noqa: E731
    planted: tuple[tuple[str, str, str, Callable[[Path], dict[str, Any]]], ...] = (
        ("no optimizer", "CKP019", "optimizer", lambda r: plain_run(r, drop("optimizer"))),
        ("no scaler for fp16", "CKP019", "scaler",
         lambda r: plain_run(r, nothing, precision="fp16")),
        ("schedule at its end", "CKP021", "20 are done", lambda r: _ended(r)),
        ("schedule too short", "CKP021", "OneCycleLR",
         lambda r: plain_run(r, nothing, max_steps=30)),
        ("scale below 1", "CKP021", "scale",
         lambda r: plain_run(r, lambda s: s.update(scaler={"scale": 1e-4}))),
        ("Trainer without scheduler", "CKP019", "neither",
         lambda r: trainer_run(r, _without("scheduler.pt"))),
        ("Trainer without optimizer", "CKP019", "optimizer",
         lambda r: trainer_run(r, _without("optimizer.pt"))),
        ("Trainer without random state", "CKP019", "random state",
         lambda r: trainer_run(r, _without("rng_state.pth"))),
        ("Trainer, renamed", "CKP021", "directory",
         lambda r: trainer_run(r, lambda p: p.rename(p.with_name("checkpoint-12")))),
        ("Trainer, state of another step", "CKP021", "10",
         lambda r: trainer_run(r, _state(global_step=30))),
        ("Trainer, nothing left", "CKP021", "no step is left",
         lambda r: trainer_run(r, nothing, max_steps=10)),
        ("Trainer, other batch", "CKP022", "batches",
         lambda r: trainer_run(r, nothing, batch_size=8)),
        ("Trainer, other world", "CKP022", "processes",
         lambda r: trainer_run(r, _ranked(0, 1), gpus=8)),
        ("Trainer, ranks without state", "CKP020", "random state",
         lambda r: trainer_run(r, _ranked(0, 1), gpus=8)),
        ("Trainer, damaged scheduler", "CKP019", "scheduler",
         lambda r: trainer_run(r, _cut_scheduler)),
        ("old numpy", "CKP022", "numpy",
         lambda r: trainer_run(r, nothing, packages={"numpy": "1.24.0"})),
        ("old transformers", "CKP022", "transformers",
         lambda r: trainer_run(r, nothing, packages={"transformers": "4.40.0"})),
        ("accelerate without optimizer", "CKP019", "optimizer",
         lambda r: accelerate_run(r, _without("optimizer.bin"))),
        ("accelerate without random state", "CKP019", "",
         lambda r: accelerate_run(r, _without("random_states_0.pkl"))),
        ("Lightning, weights only", "CKP019", "optimizer",
         lambda r: lightning_run(r, drop("optimizer_states", "lr_schedulers"))),
        ("Lightning without schedule", "CKP019", "scheduler",
         lambda r: lightning_run(r, drop("lr_schedulers"))),
        ("Lightning, state of another step", "CKP021", "same number",
         lambda r: lightning_run(r, lambda s: s.update(global_step=5))),
        ("Lightning, no loops", "CKP019", "loop",
         lambda r: lightning_run(r, drop("loops"))),
        ("nanoGPT without optimizer", "CKP019", "optimizer",
         lambda r: nanogpt_run(r, drop("optimizer"))),
        ("nanoGPT, optimizer of another step", "CKP021", "same number",
         lambda r: nanogpt_run(r, lambda s: s.update(iter_num=5))),
        ("distributed without optimizer", "CKP019", "optimizer",
         lambda r: distributed_run(r, ("model", "train_state"))),
    )  # fmt: skip
    for name, code, word, build in planted:
        yield Case(f"run: {name}", code, build, word)


def _ended(root: Path) -> dict[str, Any]:
    torch.save(loop(20), root / "ckpt.pt")
    return {"path": str(root / "ckpt.pt"), "plan": Plan()}
