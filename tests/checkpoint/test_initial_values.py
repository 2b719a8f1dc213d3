"""Saves that hold zeros, parts or initial values in place of what was trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judges import judge

from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint
from doctor.judge.check import Status

torch = pytest.importorskip("torch")
save_file = pytest.importorskip("safetensors.torch").save_file

FILES, VALUES, CONFIG = judge("CKP001"), judge("CKP005"), judge("CKP012")
ADAPTER, STEPPED = judge("CKP013"), judge("CKP009")


def scanned(path: Path) -> Checkpoint:
    found = read(ScanRequest(path=str(path)), no_stage, lambda note: None)
    assert isinstance(found, Checkpoint), found
    return found


def folder(path: Path, config: dict[str, Any], tensors: dict[str, Any]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    return path


LORA = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}


@pytest.mark.parametrize(
    ("name", "trained", "status"),
    [
        ("model.layers.{}.mlp.up_proj.weight", 0, Status.FAIL),
        ("model.layers.{}.mlp.up_proj.weight", 2, Status.PASS),  # some may begin at zero
        ("zero_convs.{}.weight", 0, Status.PASS),  # these do
        ("heads.{}.weight", 0, Status.PASS),
    ],
)
def test_a_model_of_zeros(tmp_path: Path, name: str, trained: int, status: Status) -> None:
    values = [torch.randn(8, 8) if n < trained else torch.zeros(8, 8) for n in range(8)]
    tensors = {name.format(n): value for n, value in enumerate(values)}
    verdict = VALUES(checkpoint=scanned(folder(tmp_path / "m", {"model_type": "llama"}, tensors)))
    assert verdict.status is status
    assert ("8 of 8 matrices are 0.0" in verdict.summary) is (status is Status.FAIL)


def adapter(path: Path, layer: str = "", b: float = 0.0, losses: tuple[float, ...] = ()) -> Path:
    path.mkdir()
    lead = f"base_model.model.model.layers.0.{layer}self_attn.q_proj"
    weights = {"A": torch.randn(2, 8), "B": torch.full((8, 2), b)}
    save_file(
        {f"{lead}.lora_{side}.weight": weight for side, weight in weights.items()},
        path / "adapter_model.safetensors",
    )
    (path / "adapter_config.json").write_text(json.dumps(LORA))
    log = [{"step": 100 * n, "loss": loss} for n, loss in enumerate(losses, 1)]
    state = {"global_step": 100 * len(log), "log_history": log}
    if losses:
        (path / "trainer_state.json").write_text(json.dumps(state))
    return path


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ((2.0, *[1.5] * 6, *[1.1] * 3), "the loss fell from 2 to 1.1"),
        ((2.0, *[2.1] * 6, *[1.9] * 3), "the adapter was not trained"),
        ((2.0, 1.1), "the adapter was not trained"),  # of one sample each, maybe
        ((0.0,) * 12, "the adapter was not trained"),
    ],
)
def test_what_the_log_says_of_an_initial_adapter(
    tmp_path: Path, losses: tuple[float, ...], says: str
) -> None:
    verdict = ADAPTER(checkpoint=scanned(adapter(tmp_path / "a", losses=losses)))
    assert (verdict.status, says in verdict.summary) == (Status.FAIL, True)
    assert ("get_state_dict" in (verdict.fix or "")) is ("fell" in says)


@pytest.mark.parametrize(
    ("layer", "status"),
    [("", Status.PASS), ("inner.", Status.NOTE), ("shared_transf.", Status.PASS)],
)
def test_a_name_between_the_layer_and_its_attention(
    tmp_path: Path, layer: str, status: Status
) -> None:
    verdict = ADAPTER(checkpoint=scanned(adapter(tmp_path / "a", layer, b=0.5)))
    assert verdict.status is status
    assert (layer in verdict.summary) is (status is Status.NOTE or not layer)


def test_an_adapter_without_tensors_beside_the_engine(tmp_path: Path) -> None:
    path = adapter(tmp_path / "a", losses=(2.0, 1.0))
    save_file({}, path / "adapter_model.safetensors", {"format": "pt"})
    (path / "latest").write_text("global_step200")
    (path / "global_step200").mkdir()
    verdict = FILES(checkpoint=scanned(path))
    assert verdict.status is Status.FAIL
    assert "adapter_model.safetensors holds no tensor" in verdict.summary


@pytest.mark.parametrize(("empty", "fails"), [(6, True), (1, False)])
def test_divided_parameters_in_a_plain_file(tmp_path: Path, empty: int, fails: bool) -> None:
    shapes = [(0,) if n < empty else (4, 4) for n in range(16)]
    state = {f"module.blocks.{n}.weight": torch.ones(shape) for n, shape in enumerate(shapes)}
    torch.save(state, tmp_path / "merged.pt")
    verdict = CONFIG(checkpoint=scanned(tmp_path))
    assert (verdict.status is Status.FAIL) is fails
    assert ("hold no value" in verdict.summary) is fails


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"model_type": "t5"}, Status.FAIL),
        ({"model_type": "own"}, Status.WARN),
        ({"model_type": "t5", "auto_map": {"AutoModel": "own.Model"}}, Status.WARN),
    ],
)
def test_more_rows_than_tokens(tmp_path: Path, change: dict[str, Any], status: Status) -> None:
    weights = {"shared.weight": torch.randn(16, 8)}
    path = folder(tmp_path / "m", {"vocab_size": 11, "d_model": 8, **change}, weights)
    (path / "own.py").write_text("class Model:\n    pass\n")
    verdict = CONFIG(checkpoint=scanned(path))
    assert (verdict.status, '"vocab_size": 16' in (verdict.fix or "")) == (status, True)


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ("optimizer_state_dict", Status.PASS),
        ("optimizer_state_dit", Status.NOTE),
        ("optimizer_statedict", Status.PASS),
        ("optimizer_state_dicts", Status.PASS),
    ],
)
@pytest.mark.parametrize("epoch", [0, 30])
def test_the_state_of_an_optimizer(tmp_path: Path, key: str, status: Status, epoch: int) -> None:
    model = torch.nn.Linear(4, 4)
    state = torch.optim.Adam(model.parameters()).state_dict()
    held = {"model_state_dict": model.state_dict(), key: state, "epoch": epoch}
    torch.save(held, tmp_path / "recent.pt")
    checkpoint = scanned(tmp_path)
    verdict = FILES(checkpoint=checkpoint)
    assert (verdict.status, key in verdict.summary) == (status, status is Status.NOTE)
    summary = STEPPED(checkpoint=checkpoint).summary
    assert ("never stepped, in epoch 30" in summary) is (epoch == 30)
    assert ("no step was taken yet" in summary) is (epoch == 0)
