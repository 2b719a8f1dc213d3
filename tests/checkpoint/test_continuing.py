"""What is read of checkpoints that real frameworks saved, for a run to continue."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch  # noqa: TID253
from recorded_checkpoints import checkpoint

from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Continuation, Plan
from doctor.checks.checkpoint.continuing import COMPLETE, RANKS
from doctor.checks.checkpoint.continuing_steps import STEPS
from doctor.cli.continuing import read_plan
from doctor.judge.check import Check, Status, Verdict


def continued(path: Path, **plan: Any) -> Continuation:
    result = read(ScanRequest(path=str(path), plan=Plan(**plan)), no_stage, lambda note: None)
    assert isinstance(result, Checkpoint)
    assert isinstance(result.continuation, Continuation)
    return result.continuation


def status(check: Check, found: Continuation) -> Status:
    return check.judge(checkpoint=checkpoint(continuation=found)).status


def trained() -> dict[str, Any]:
    """A state of a plain loop after eight steps."""
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=20)
    for _ in range(8):
        model(torch.ones(1, 8)).sum().backward()
        optimizer.step()
        scheduler.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "scaler": {"scale": 65536.0, "_growth_tracker": 0},
        "rng": torch.get_rng_state(),
        "step": 8,
    }


def test_a_plain_loop(tmp_path: Path) -> None:
    torch.save(trained(), tmp_path / "ckpt.pt")
    found = continued(tmp_path / "ckpt.pt")
    assert found.framework == "torch.save"
    assert found.counts == {"scheduler": 8, "checkpoint": 8, "optimizer": 8}
    assert (found.scheduler_end, found.one_cycle, found.scale) == (20, True, 65536.0)
    assert all(found.pieces[each] for each in ("optimizer", "scheduler", "scaler", "random state"))
    assert status(STEPS, found) is Status.PASS


def test_what_a_plain_loop_left_out(tmp_path: Path) -> None:
    state = trained()
    del state["optimizer"], state["scheduler"]
    torch.save(state, tmp_path / "ckpt.pt")
    assert status(COMPLETE, continued(tmp_path / "ckpt.pt")) is Status.FAIL


def test_an_optimizer_in_a_file_of_its_own(tmp_path: Path) -> None:
    state = trained()
    torch.save(state["model"], tmp_path / "params.pt")
    assert status(COMPLETE, continued(tmp_path / "params.pt")) is Status.FAIL
    torch.save(state["model"], tmp_path / "optimizer.pt")  # of that name, and none
    assert status(COMPLETE, continued(tmp_path / "params.pt")) is Status.FAIL
    torch.save(state["optimizer"], tmp_path / "optimizer.pt")
    torch.save(state["scheduler"], tmp_path / "scheduler.pt")
    found = continued(tmp_path / "params.pt")
    assert (found.pieces["optimizer"], found.pieces["scheduler"]) == (
        "optimizer.pt",
        "scheduler.pt",
    )
    assert found.counts == {"optimizer": 8, "scheduler": 8}
    assert status(COMPLETE, found) is Status.NOTE
    (tmp_path / "optimizer.pt").write_bytes((tmp_path / "optimizer.pt").read_bytes()[:-400])
    assert status(COMPLETE, continued(tmp_path / "params.pt")) is Status.FAIL


def trainer(directory: Path) -> Path:
    """The files that Trainer leaves, from a plain loop."""
    from safetensors.torch import save_file

    directory.mkdir()
    state = trained()
    save_file(state["model"], directory / "model.safetensors")
    torch.save(state["optimizer"], directory / "optimizer.pt")
    torch.save(state["scheduler"] | {"total_steps": None}, directory / "scheduler.pt")
    torch.save({"cpu": torch.get_rng_state()}, directory / "rng_state.pth")
    loop = {"global_step": 8, "max_steps": 20, "num_train_epochs": 2, "train_batch_size": 4}
    (directory / "trainer_state.json").write_text(json.dumps(loop))
    return directory


def test_a_directory_of_the_trainer(tmp_path: Path) -> None:
    found = continued(trainer(tmp_path / "checkpoint-8"))
    assert found.framework == "transformers Trainer"
    assert found.counts == dict.fromkeys(
        ("trainer_state.json", "scheduler", "optimizer", "directory"), 8
    )
    assert (found.ranks, found.max_steps, found.batch_size) == (1, 20, 4)
    assert status(COMPLETE, found) is status(STEPS, found) is Status.PASS


@pytest.mark.parametrize("file", ["optimizer.pt", "scheduler.pt"])
def test_a_file_that_the_trainer_needs(tmp_path: Path, file: str) -> None:
    path = trainer(tmp_path / "checkpoint-8")
    (path / file).unlink()
    assert status(COMPLETE, continued(path)) is Status.FAIL


def test_a_state_that_the_trainer_needs(tmp_path: Path) -> None:
    """Without --continue a note, since the weights load; the last save has no optimizer either."""
    path = trainer(tmp_path / "checkpoint-8")
    torch.save({"lr": 1.0}, path / "training_args.bin")

    def plain() -> Verdict:
        found = read(ScanRequest(path=str(path)), no_stage, lambda note: None)
        assert isinstance(found, Checkpoint)
        return COMPLETE.judge(checkpoint=found)

    assert plain().status is Status.SKIP
    (path / "trainer_state.json").unlink()
    (path / "scheduler.pt").unlink()
    assert status(COMPLETE, continued(path)) is Status.FAIL
    assert plain().status is Status.NOTE
    assert "fails without trainer_state.json" in plain().summary
    (path / "optimizer.pt").unlink()
    assert plain().status is Status.SKIP
    assert status(COMPLETE, continued(path)) is Status.UNKNOWN


def test_a_directory_with_files_of_two_saves(tmp_path: Path) -> None:
    path = trainer(tmp_path / "checkpoint-8")
    shutil.copytree(path, tmp_path / "checkpoint-9")
    assert status(STEPS, continued(tmp_path / "checkpoint-9")) is Status.FAIL


def test_ranks_by_their_random_states(tmp_path: Path) -> None:
    path = trainer(tmp_path / "checkpoint-8")
    (path / "rng_state.pth").rename(path / "rng_state_0.pth")
    shutil.copy(path / "rng_state_0.pth", path / "rng_state_3.pth")
    found = continued(path, gpus=4)
    assert (found.ranks, found.random_ranks) == (4, 2)
    assert status(RANKS, found) is Status.WARN


def test_random_states_of_single_processes(tmp_path: Path) -> None:
    path = trainer(tmp_path / "checkpoint-8")
    for rank in (0, 2):
        shutil.copy(path / "rng_state.pth", path / f"rng_state_{rank}.pth")
    assert status(COMPLETE, continued(path)) is Status.WARN
    shutil.copy(path / "rng_state.pth", path / "rng_state_1.pth")
    assert status(COMPLETE, continued(path)) is Status.PASS


def test_a_best_checkpoint_that_is_gone(tmp_path: Path) -> None:
    path = trainer(tmp_path / "checkpoint-8")
    loop = json.loads((path / "trainer_state.json").read_text())
    loop["best_model_checkpoint"] = "/cluster/run/checkpoint-4"
    (path / "trainer_state.json").write_text(json.dumps(loop))
    assert status(COMPLETE, continued(path)) is Status.PASS  # moved away from its run
    (tmp_path / "checkpoint-6").mkdir()
    assert status(COMPLETE, continued(path)) is Status.WARN
    (tmp_path / "checkpoint-4").mkdir()
    assert status(COMPLETE, continued(path)) is Status.PASS


def test_a_rate_that_the_scheduler_did_not_set(tmp_path: Path) -> None:
    path = trainer(tmp_path / "checkpoint-8")
    state = trained()["optimizer"]
    for rate, expected in ((state["param_groups"][0]["lr"], Status.PASS), (0.5, Status.WARN)):
        state["param_groups"][0]["lr"] = rate
        torch.save(state, path / "optimizer.pt")
        request = ScanRequest(path=str(path), plan=Plan())
        found = read(request, no_stage, lambda note: None)
        assert isinstance(found, Checkpoint)
        assert STEPS.judge(checkpoint=found).status is expected


def test_a_damaged_scheduler(tmp_path: Path) -> None:
    path = trainer(tmp_path / "checkpoint-8")
    (path / "scheduler.pt").write_bytes(b"\x80\x02broken")
    assert status(COMPLETE, continued(path)) is Status.FAIL


@pytest.mark.parametrize(
    "text", ["{", '{"global_step": "x", "max_steps": -1}', '{"global_step": 1e400}', "[]", "null"]
)
def test_a_hostile_state_of_the_trainer(tmp_path: Path, text: str) -> None:
    path = trainer(tmp_path / "checkpoint-8")
    (path / "trainer_state.json").write_text(text)
    found = continued(path)
    assert found.counts.get("trainer_state.json") is None


def test_the_plan_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from transformers import TrainingArguments\n"
        "args = TrainingArguments('out', max_steps=500, fp16=True,\n"
        "    per_device_train_batch_size=8, gradient_accumulation_steps=2)\n"
    )
    plan = read_plan(4, str(script), None)
    assert (plan.gpus, plan.max_steps, plan.batch_size, plan.accumulation) == (4, 500, 8, 2)
    assert plan.precision == "fp16"
