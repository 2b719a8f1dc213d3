"""What --deep and --baseline measure: outliers, checksums of records, tables by layer."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from healthy_folders import plain_model, saved_transformer, sentence_transformers
from judges import judge

from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Movement, Values
from doctor.cli.scan import facts_of
from doctor.judge.check import Status
from doctor.report.report import Report
from doctor.report.tables import tables_of

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")

FINITE, STEPPED = judge("CKP005"), judge("CKP009")


def deep(path: Path, baseline: Path | None = None) -> Checkpoint:
    request = ScanRequest(path=str(path), deep=True, baseline=str(baseline) if baseline else None)
    checkpoint = read(request, no_stage, lambda note: None)
    assert isinstance(checkpoint, Checkpoint), checkpoint
    return checkpoint


def save(path: Path, **tensors: object) -> Path:
    from safetensors.torch import save_file

    path.mkdir(exist_ok=True)
    save_file(tensors, str(path / "model.safetensors"))
    return path


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("bfloat16", 1e30), ("float32", 3e38), ("float32", -3e8), ("float64", 1e200)],
)
def test_a_value_a_million_times_the_rest(tmp_path: Path, dtype: str, value: float) -> None:
    weight = (torch.randn(300, 200) * 0.02).to(getattr(torch, dtype))
    other = torch.randn(64, 64) * 1e-6
    folder = save(tmp_path / "m", **{"a.weight": weight, "b.weight": other})
    assert FINITE(checkpoint=deep(folder)).status is Status.PASS
    weight[123, 45] = value
    save(folder, **{"a.weight": weight, "b.weight": other})
    verdict = FINITE(checkpoint=deep(folder))
    assert verdict.status is Status.WARN
    assert "a.weight has a value" in verdict.summary


def test_what_is_large_and_healthy(tmp_path: Path) -> None:
    """Masks, vectors, a matrix of large values and one of a few trained rows."""
    few = torch.randn(1000, 16) * 1e-9
    few[:40] = torch.randn(40, 16)
    folder = save(
        tmp_path / "m",
        **{
            "attn.bias": torch.full((64, 64), -1e9).triu(1),
            "norm.weight": torch.cat([torch.ones(99) * 1e-8, torch.tensor([5.0])]),
            "a.weight": torch.randn(64, 64) * 1e12,
            "embed.weight": few,
            "zero.lora_B.weight": torch.zeros(64, 8),
        },
    )
    assert FINITE(checkpoint=deep(folder)).status in (Status.PASS, Status.NOTE)


def test_a_flipped_bit_in_a_record(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    torch.save(plain_model().state_dict(), path)
    assert FINITE(checkpoint=deep(path)).status is Status.PASS
    data = bytearray(path.read_bytes())
    storage = data.find(plain_bytes(path))
    data[storage + 2] ^= 1
    path.write_bytes(data)
    verdict = FINITE(checkpoint=deep(path))
    assert verdict.status is Status.FAIL
    assert "CRC-32" in verdict.summary


def test_a_flipped_bit_in_a_scheduler_beside_the_weights(tmp_path: Path) -> None:
    folder = save(tmp_path / "m", **plain_model().state_dict())
    torch.save({"base_lrs": torch.ones(500)}, folder / "scheduler.pt")
    assert FINITE(checkpoint=deep(folder)).status is Status.PASS
    data = bytearray((folder / "scheduler.pt").read_bytes())
    data[data.find(torch.ones(9).numpy().tobytes()) + 8] ^= 1
    (folder / "scheduler.pt").write_bytes(data)
    verdict = FINITE(checkpoint=deep(folder))
    assert verdict.status is Status.FAIL
    assert "scheduler.pt: not the CRC-32" in verdict.summary


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda weight: weight, ""),
        (torch.Tensor.bfloat16, ""),
        (lambda weight: weight * 1.01, "pytorch_model.bin beside them holds other values in 1 of"),
        (lambda weight: weight[:5], "pytorch_model.bin beside them holds other values in 1 of"),
    ],
)
def test_stale_weights_beside_safetensors(
    tmp_path: Path, change: Callable[[torch.Tensor], torch.Tensor], words: str
) -> None:
    state = plain_model().state_dict()
    folder = save(tmp_path / "m", **state)
    name = next(name for name, weight in state.items() if weight.ndim > 1)
    torch.save(state | {name: change(state[name])}, folder / "pytorch_model.bin")
    verdict = FINITE(checkpoint=deep(folder))
    assert verdict.status is (Status.WARN if words else Status.PASS)
    assert words in verdict.summary


def plain_bytes(path: Path) -> bytes:
    """The bytes of the first weight."""
    return next(iter(torch.load(path, weights_only=True).values())).numpy().tobytes()


def test_files_without_checksums_are_left_alone(tmp_path: Path) -> None:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(plain_model().state_dict(), tmp_path / "m.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    assert FINITE(checkpoint=deep(tmp_path / "m.pt")).status is Status.PASS


def test_nan_in_the_file_of_a_further_module(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    sentence_transformers(tmp_path / "m")
    assert FINITE(checkpoint=deep(tmp_path / "m")).status is not Status.FAIL
    save(tmp_path / "m/2_Dense", **{"linear.weight": torch.full((4, 4), torch.nan)})
    verdict = FINITE(checkpoint=deep(tmp_path / "m"))
    assert verdict.status is Status.FAIL
    assert "2_Dense.linear.weight" in verdict.summary


def test_the_tables(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    saved_transformer(tmp_path / "before", "llama")
    from safetensors.torch import load_file

    tensors = load_file(tmp_path / "before/model.safetensors")
    changed = {name: tensor * (1.1 if ".1." in name else 1.0) for name, tensor in tensors.items()}
    checkpoint = deep(save(tmp_path / "after", **changed), tmp_path / "before")
    values, movement = checkpoint.values, checkpoint.movement
    assert isinstance(values, Values)
    assert isinstance(movement, Movement)
    relative = {(each.layer, each.kind): each.relative for each in movement.layers}
    assert relative["0", "MLP"] == 0
    assert relative["1", "MLP"] == pytest.approx(0.1, rel=1e-3)
    row = next(row for row in values.layers if (row.layer, row.kind) == ("0", "attention"))
    part = [each for name, each in changed.items() if ".0.self_attn" in name]
    flat = torch.cat([each.flatten() for each in part]).double()
    assert row.norm == pytest.approx(float(flat.norm()), rel=1e-6)
    assert row.rms == pytest.approx(float(flat.square().mean().sqrt()), rel=1e-6)
    assert (row.least, row.largest) == pytest.approx((float(flat.min()), float(flat.max())))
    titles = {table.title for table in tables_of(Report(facts_of("m", checkpoint, 0.0), ()))}
    assert {"Change since the baseline, by samples"} <= titles
    assert any(title.startswith("Values by layer") for title in titles)


def test_a_log_that_ends_in_nan(tmp_path: Path) -> None:
    """Python writes NaN into JSON; the rates before it are read all the same."""
    folder = save(tmp_path / "m", **{"a.weight": torch.randn(4, 4)})
    moments = {
        "step": torch.tensor(20.0),
        "exp_avg": torch.ones(4, 4),
        "exp_avg_sq": torch.ones(4, 4),
    }
    state = {
        "state": {0: moments},
        "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0]}],
    }
    torch.save(state, folder / "optimizer.pt")
    for values, status in (
        ([1.0, float("nan"), 1.0], Status.PASS),
        ([1.0] + [float("nan")] * 3, Status.WARN),
    ):
        log = [
            {"step": number + 1, "learning_rate": 1e-3, "grad_norm": value, "loss": 0.0}
            for number, value in enumerate(values)
        ]
        text = json.dumps({"global_step": 20, "log_history": log, "logging_steps": 1})
        (folder / "trainer_state.json").write_text(text)
        checkpoint = deep(folder)
        assert checkpoint.training.history
        assert checkpoint.training.history.covered == len(values)
        assert STEPPED(checkpoint=checkpoint).status is status


def test_a_header_alone_has_no_tables(tmp_path: Path) -> None:
    head = json.dumps(
        {"a.weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}
    ).encode()
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(4))
    checkpoint = deep(tmp_path / "m.safetensors")
    assert not isinstance(checkpoint.values, Values) or not checkpoint.values.layers
