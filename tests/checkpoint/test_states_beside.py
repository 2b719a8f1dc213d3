"""What lies beside the weights: scalers, engines of DeepSpeed, averages, other optimizers."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from healthy_folders import make, plain_model, saved_transformer, trained, with_tokenizer
from judges import judge

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.torch").load_file
save_file = pytest.importorskip("safetensors.torch").save_file

pytestmark = pytest.mark.filterwarnings("ignore")


def scanned(path: Path, **request: Any) -> Checkpoint:
    found = read(ScanRequest(path=str(path), **request), no_stage, lambda note: None)
    assert not isinstance(found, Unknown), found
    return found


def verdict(code: str, path: Path, **request: Any) -> Verdict:
    return judge(code)(checkpoint=scanned(path, **request))


def scaler(scale: float) -> dict[str, Any]:
    state = torch.amp.GradScaler("cpu", init_scale=1.0).state_dict()
    return {**state, "scale": scale}


@pytest.mark.parametrize(
    ("scale", "status"),
    [(65536.0, Status.PASS), (1.0, Status.PASS), (1e-6, Status.WARN), (0.0, Status.FAIL),
     (float("nan"), Status.FAIL)],
)  # fmt: skip
def test_the_scale_of_a_scaler(tmp_path: Path, scale: float, status: Status) -> None:
    model = plain_model()
    optimizer = trained(model)
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**whole, "scaler": scaler(scale)}, tmp_path / "own.pt")
    assert verdict("CKP009", tmp_path / "own.pt").status is status
    beside = tmp_path / "beside"
    beside.mkdir()
    torch.save(model.state_dict(), beside / "pytorch_model.bin")
    torch.save(optimizer.state_dict(), beside / "optimizer.bin")
    torch.save(scaler(scale), beside / "scaler.pt")
    assert verdict("CKP009", beside).status is status


def test_a_vocabulary_that_was_resized_after_the_steps(tmp_path: Path) -> None:
    table = torch.nn.Sequential(torch.nn.Embedding(32, 8), torch.nn.Linear(8, 32))
    optimizer = torch.optim.AdamW(table.parameters())
    table(torch.arange(4)).sum().backward()
    optimizer.step()
    state = table.state_dict()
    for rows, status in ((32, Status.PASS), (36, Status.FAIL)):
        resized = {n: torch.randn(rows, *each.shape[1:]) for n, each in state.items()}
        path = tmp_path / f"{rows}.pt"
        torch.save({"model": resized, "optimizer": optimizer.state_dict()}, path)
        found = verdict("CKP014", path)
        assert found.status is status, found.summary
    assert "have 32 rows, their weights 36" in found.summary


@pytest.mark.parametrize("ends", ["safetensors", "bin"])
@pytest.mark.parametrize("second", [True, False])
def test_a_second_model_that_accelerate_prepared(tmp_path: Path, ends: str, second: bool) -> None:
    """One optimizer of a generator and a critic; without the critic's file its entries are odd."""
    models = [torch.nn.Linear(8, 4), torch.nn.Sequential(torch.nn.Linear(4, 16))]
    optimizer = torch.optim.AdamW([p for model in models for p in model.parameters()])
    models[1](models[0](torch.randn(2, 8))).sum().backward()
    optimizer.step()
    stem = "model" if ends == "safetensors" else "pytorch_model"
    for name, model in zip((stem, f"{stem}_1"), models[: 1 + second], strict=False):
        save = save_file if ends == "safetensors" else torch.save
        save(model.state_dict(), tmp_path / f"{name}.{ends}")
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.bin")
    (tmp_path / "random_states_0.pkl").write_bytes(b"")
    found = verdict("CKP014", tmp_path)
    assert found.status is (Status.PASS if second else Status.WARN), found.summary


def engine(folder: Path, ranks: int = 2) -> Path:
    """A model of Trainer with the files of ZeRO 2, one group of one parameter."""
    make(folder, lambda path: saved_transformer(path, "llama"))
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 20}))
    (folder / "latest").write_text("global_step20")
    under = folder / "global_step20"
    under.mkdir()
    module = {"param_shapes": [OrderedDict(w=torch.Size([64, 8]))], "module": {}}
    torch.save({**module, "global_steps": 20}, under / "mp_rank_00_model_states.pt")
    for rank in range(ranks):
        rank_file(under, rank, ranks, 20)
    return folder


def rank_file(under: Path, rank: int, ranks: int, step: int, seed: int | None = None) -> None:
    torch.manual_seed(rank if seed is None else seed)
    flat = torch.randn(512 // ranks)
    entry = {"step": step, "exp_avg": torch.randn_like(flat), "exp_avg_sq": torch.rand_like(flat)}
    state = {
        "zero_stage": 2,
        "partition_count": [ranks],
        "single_partition_of_fp32_groups": [flat],
        "base_optimizer_state": {"state": {0: entry}, "param_groups": [{"lr": 1e-3}]},
    }
    name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
    torch.save({"optimizer_state_dict": state}, under / name)


def test_an_engine_that_deepspeed_does_not_find_or_that_is_of_two_saves(tmp_path: Path) -> None:
    folder = engine(tmp_path / "m")
    under = folder / "global_step20"
    assert verdict("CKP001", folder).status is Status.PASS
    rank_file(under, 1, 2, 10)
    assert "of steps 10 and 20" in verdict("CKP001", folder).summary
    rank_file(under, 1, 2, 20, seed=0)
    assert "for two ranks, as a copy" in verdict("CKP001", folder).summary
    rank_file(under, 1, 2, 20)
    (folder / "latest").write_text("global_step10")
    assert "latest names no directory" in verdict("CKP001", folder).summary
    (folder / "latest").unlink()
    found = verdict("CKP001", folder)
    assert "latest is missing" in found.summary
    assert "> latest for DeepSpeed" in (found.fix or "")
    (folder / "latest").write_text("global_step20")
    (under / "mp_rank_00_model_states.pt").unlink()
    assert "no file of model states" in verdict("CKP001", folder).summary


def test_averages_that_do_not_follow_the_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = {f"{n}.weight": torch.randn(16, 16) for n in "abc"}
    near = {name: each * 0.98 + 0.01 for name, each in model.items()}
    other = {name: torch.randn(16, 16) for name in model}
    for state, average, status in (
        ("ema", near, Status.PASS),
        ("ema", model, Status.PASS),
        ("ema", other, Status.WARN),
        ("model_ema", {name: each * 0 for name, each in model.items()}, Status.WARN),
        ("teacher", other, Status.PASS),
    ):
        path = tmp_path / "own.pt"
        torch.save({"model": model, state: {n: e.clone() for n, e in average.items()}}, path)
        found = verdict("CKP005", path, deep=True)
        assert found.status in (status, Status.NOTE if status is Status.PASS else status), state


def test_a_negative_variance(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    torch.save(net.state_dict(), tmp_path / "net.pt")
    assert verdict("CKP005", tmp_path / "net.pt", deep=True).status is Status.PASS
    net[1].running_var[2] = -0.1
    torch.save(net.state_dict(), tmp_path / "net.pt")
    found = verdict("CKP005", tmp_path / "net.pt", deep=True)
    assert found.status is Status.FAIL
    assert "update_bn" in (found.fix or "")


@pytest.mark.parametrize(
    ("losses", "status"),
    [
        ([4.0, *[2.0] * 8, 2.5, 2.2, 2.4], Status.PASS),
        ([4.0, *[2.0] * 8, 9.0, 20.0, 40.0], Status.WARN),
        ([0.01, *[0.002] * 8, 0.03, 0.02, 0.04], Status.PASS),  # of reinforcement learning
    ],
)
def test_a_run_that_has_diverged(tmp_path: Path, losses: list[float], status: Status) -> None:
    model = plain_model()
    optimizer = trained(model)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    history = [
        {"step": n + 1, "loss": loss, "learning_rate": 1e-3} for n, loss in enumerate(losses)
    ]
    state = {"global_step": 12, "log_history": history}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    assert verdict("CKP009", tmp_path).status is status


def test_weights_that_a_save_left_out(tmp_path: Path) -> None:
    model = plain_model()
    torch.save(trained(model).state_dict(), tmp_path / "optimizer.pt")
    assert verdict("CKP001", tmp_path).status is Status.UNKNOWN
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    found = verdict("CKP001", tmp_path)
    assert found.status is Status.FAIL
    assert "no file of weights" in found.summary


def test_a_tokenizer_that_was_cut(tmp_path: Path) -> None:
    make(tmp_path / "m", with_tokenizer)
    assert verdict("CKP011", tmp_path / "m").status is not Status.FAIL
    file = tmp_path / "m" / "tokenizer.json"
    file.write_bytes(file.read_bytes()[:-9])
    assert verdict("CKP011", tmp_path / "m").status is Status.FAIL


def test_a_layer_of_another_magnitude(tmp_path: Path) -> None:
    torch.manual_seed(0)
    state = {f"layers.{n}.mlp.up_proj.weight": torch.randn(16, 16) for n in range(4)}
    for times, status in ((10, Status.PASS), (1000, Status.WARN)):
        scaled = {name: each * (times if ".2." in name else 1) for name, each in state.items()}
        torch.save(scaled, tmp_path / "own.pt")
        found = verdict("CKP005", tmp_path / "own.pt", deep=True)
        assert found.status is status, found.summary
    assert "MLP in layer 2" in found.summary


def test_norms_that_a_download_left_at_zero(tmp_path: Path) -> None:
    for kind, words in (("llama", "unfinished download"), ("gemma2", "all norms changed")):
        folder = tmp_path / kind
        make(folder, lambda path, kind=kind: saved_transformer(path, kind))
        state = load_file(folder / "model.safetensors")
        for name, each in state.items():
            if "norm" in name:
                each.copy_(torch.rand_like(each) * ("layers.1" not in name))
        save_file(state, folder / "model.safetensors", {"format": "pt"})
        found = verdict("CKP004", folder)
        assert found.status is Status.WARN
        assert words in found.summary or kind == "gemma2"
