"""Checkpoints of a real run of PyTorch Lightning, as its ModelCheckpoint leaves them."""

from __future__ import annotations

import argparse
import inspect
import logging
import pickle
import pickletools
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from judges import judge

from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.reader import LayoutContents
from doctor.checkpoint.records import Checkpoint, Optimizer
from doctor.checkpoint.scan import scan
from doctor.checkpoint.tensors import OptimizerState, Tensor, join_states
from doctor.judge.check import Status

torch = pytest.importorskip("torch")

STEPS = 3


class Recorder:
    """The tensors and the optimizer's state of one scan."""

    def __call__(self, folder: Directory, contents: LayoutContents) -> None:
        self.tensors = {
            tensor.name: tensor for shard in contents.shards for tensor in shard.tensors
        }
        self.state = join_states(shard.optimizer for shard in contents.shards)


def scan_tensors(path: Path) -> tuple[Checkpoint, dict[str, Tensor], OptimizerState]:
    recorder = Recorder()
    checkpoint = scan(str(path), no_stage, recorder)
    assert isinstance(checkpoint, Checkpoint), checkpoint
    assert recorder.state is not None
    return checkpoint, recorder.tensors, recorder.state


def lightning() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Lightning imports
        return pytest.importorskip("pytorch_lightning")


def module(kept: dict[str, Any], optimizers: int) -> Any:
    """A LightningModule with a norm, a buffer and AdamW, or with AdamW and SGD."""

    class Module(lightning().LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = optimizers == 1
            self.save_hyperparameters(kept)
            self.body = torch.nn.Linear(4, 6)
            self.norm = torch.nn.LayerNorm(6)
            self.frozen = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16), False)
            self.register_buffer("seen", torch.tensor(5))

        def training_step(self, batch: Any, index: int) -> Any:
            loss = self.norm(self.body(batch)).pow(3).sum()
            if optimizers > 1:
                self.manual_backward(loss)
                for optimizer in self.optimizers():
                    optimizer.step()
                    optimizer.zero_grad()
            return loss

        def configure_optimizers(self) -> Any:
            adam = torch.optim.AdamW(self.body.parameters(), lr=1e-3)
            if optimizers > 1:
                return [adam, torch.optim.SGD(self.norm.parameters(), lr=0.1, momentum=0.9)]
            adam.add_param_group({"params": [*self.norm.parameters()], "weight_decay": 0.0})
            return [adam], [torch.optim.lr_scheduler.StepLR(adam, 2)]

    torch.manual_seed(0)
    return Module()


def fitted(
    folder: Path, kept: dict[str, Any] | None = None, optimizers: int = 1, last: bool = False
) -> Path:
    """Train for some steps on the CPU; the checkpoint of the last of them."""
    pl = lightning()
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    saver = pl.callbacks.ModelCheckpoint(dirpath=folder, every_n_train_steps=STEPS, save_last=last)
    steps = STEPS * optimizers  # Lightning counts the steps of every optimizer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Lightning: few workers, few batches, old calls
        trainer = pl.Trainer(
            max_steps=steps, accelerator="cpu", devices=1, logger=False, callbacks=[saver],
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        )  # fmt: skip
        rows = torch.utils.data.DataLoader(torch.randn(2 * STEPS, 4), batch_size=2)
        trainer.fit(module(kept or {}, optimizers), rows)
    (saved,) = folder.glob("epoch=*.ckpt")
    return saved


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tmp_path_factory.mktemp("lightning"), {"width": 6}, last=True)


def same(path: Path, checkpoint: Tensor, theirs: Any) -> None:
    """Dtype, shape and bytes as torch has them."""
    kinds = {"F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64}
    assert (kinds[checkpoint.dtype], checkpoint.shape) == (theirs.dtype, tuple(theirs.shape))
    kept = path.read_bytes()[checkpoint.begin : checkpoint.end]
    assert kept == theirs.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def globals_of(path: Path) -> set[str]:
    """By pickletools, which shares nothing with the doctor's reader."""
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        data = archive.read(name)
    return {
        str(said).replace(" ", ".")
        for opcode, said, _ in pickletools.genops(data)
        if opcode.name == "GLOBAL"
    }


def test_every_tensor_is_where_torch_finds_it(run: Path) -> None:
    checkpoint, tensors, _ = scan_tensors(run)
    assert (checkpoint.layout, checkpoint.files.count, checkpoint.problems) == (
        "Lightning checkpoint, one .ckpt file",
        1,
        (),
    )
    theirs = torch.load(run, weights_only=True)["state_dict"]
    assert tensors.keys() == theirs.keys()
    assert {"seen", "frozen", "norm.weight"} < tensors.keys()
    for name, tensor in tensors.items():
        same(run, tensor, theirs[name])
    assert checkpoint.contents.parameters == sum(tensor.numel() for tensor in theirs.values())
    assert {norm.name: norm.value for norm in checkpoint.contents.norms} == {"norm.weight": "other"}


def test_the_optimizer_and_the_step(run: Path) -> None:
    checkpoint, _, state = scan_tensors(run)
    saved = torch.load(run, weights_only=True)
    (theirs,) = saved["optimizer_states"]
    assert checkpoint.training.steps == saved["global_step"] == STEPS
    assert {entry.key for entry in state.entries} == {*map(str, theirs["state"])}
    for entry in state.entries:
        kept = theirs["state"][int(entry.key)]
        assert entry.step == float(kept["step"]) == STEPS
        assert {*entry.slots} == {"exp_avg", "exp_avg_sq"}
        for slot, tensor in entry.slots.items():
            same(run, tensor, kept[slot])
    groups = [(group.keys, group.lr, group.weight_decay) for group in state.groups]
    assert groups == [
        (tuple(map(str, group["params"])), group["lr"], group["weight_decay"])
        for group in theirs["param_groups"]
    ]
    optimizer = checkpoint.training.optimizer
    assert isinstance(optimizer, Optimizer)
    assert (optimizer.kind, optimizer.entries, optimizer.missing) == ("Adam", 4, 0)
    assert (optimizer.moments, optimizer.nonzero_moments) == ({"F32": 4}, 4)
    assert (optimizer.step_min, optimizer.step_max) == (STEPS, STEPS)


def test_what_it_would_import(run: Path) -> None:
    checkpoint, _, _ = scan_tensors(run)
    assert {*checkpoint.loading.imports} == globals_of(run)
    assert "torch._utils._rebuild_tensor_v2" in checkpoint.loading.imports
    assert (checkpoint.loading.refused, checkpoint.loading.pickles) == ((), 1)


def test_the_folder_of_a_run(run: Path) -> None:
    checkpoint, tensors, _ = scan_tensors(run.parent)
    assert checkpoint.layout == "Lightning checkpoint, one .ckpt file"
    assert {tensor.file for tensor in tensors.values()} == {"last.ckpt"}
    (problem,) = checkpoint.problems
    assert (problem.kind, problem.file) == ("note", "last.ckpt")
    assert checkpoint.training.steps == STEPS


def test_hyperparameters_that_torch_refuses(tmp_path: Path) -> None:
    """Many a script saves its parsed arguments, and objects of its own with them."""
    kept = {"arguments": argparse.Namespace(rate=0.1, where=Path("data")), "shape": (1, 2)}
    path = fitted(tmp_path, kept)
    checkpoint, tensors, _ = scan_tensors(path)
    assert {*checkpoint.loading.imports} == globals_of(path)
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    assert {*checkpoint.loading.refused} == {*unsafe}
    assert {"argparse.Namespace", "pathlib.PosixPath"} == {*checkpoint.loading.refused}
    assert (checkpoint.training.steps, checkpoint.problems) == (STEPS, ())
    theirs = torch.load(path, weights_only=False)["state_dict"]
    for name, tensor in tensors.items():
        same(path, tensor, theirs[name])


def test_the_remedy_for_plain_values_loads_in_lightning(tmp_path: Path) -> None:
    """Since 2.6 Lightning passes torch's default on; both ways that the remedy names work."""

    class Model(lightning().LightningModule):  # type: ignore[misc]
        def __init__(self, options: argparse.Namespace | None = None) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(2, 2)

    model = Model(argparse.Namespace(rate=0.1))
    kept = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams)}
    path = tmp_path / "a.ckpt"
    torch.save(kept | {"pytorch-lightning_version": lightning().__version__}, path)
    found = scan(str(path))
    assert isinstance(found, Checkpoint)
    verdict = judge("CKP010")(checkpoint=found)
    assert (verdict.status, "which holds values" in verdict.summary) == (Status.NOTE, True)
    assert "as Lightning does" not in (verdict.fix or "")
    if "weights_only" in inspect.signature(Model.load_from_checkpoint).parameters:
        with pytest.raises(pickle.UnpicklingError):
            Model.load_from_checkpoint(path)
        assert Model.load_from_checkpoint(path, weights_only=False).hparams.options.rate == 0.1
        assert "load_from_checkpoint" in (verdict.fix or "")
    with torch.serialization.safe_globals([argparse.Namespace]):
        assert Model.load_from_checkpoint(path).hparams.options.rate == 0.1


def test_two_optimizers(tmp_path: Path) -> None:
    path = fitted(tmp_path, optimizers=2)
    checkpoint, _, state = scan_tensors(path)
    saved = torch.load(path, weights_only=True)
    assert checkpoint.training.steps == saved["global_step"]
    theirs = {
        f"{number}:{key}": kept
        for number, each in enumerate(saved["optimizer_states"])
        for key, kept in each["state"].items()
    }
    assert {entry.key for entry in state.entries} == {*theirs}
    for entry in state.entries:
        assert entry.slots
        for slot, tensor in entry.slots.items():
            same(path, tensor, theirs[entry.key][slot])
    assert [group.lr for group in state.groups] == [1e-3, 0.1]
