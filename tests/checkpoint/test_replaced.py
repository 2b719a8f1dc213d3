"""CKP007: matrices that are not what the baseline's became by training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch  # noqa: TID253
from judges import judge
from safetensors.torch import save_file  # noqa: TID253

from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint
from doctor.judge.check import Status, Verdict

State = dict[str, torch.Tensor]


def state() -> State:
    torch.manual_seed(0)
    weights = {
        "model.embed_tokens.weight": torch.randn(40, 32),
        "lm_head.weight": torch.randn(40, 32),
        "model.norm.weight": torch.rand(32) + 0.5,
    }
    for layer in range(4):
        for part in ("self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj"):
            weights[f"model.layers.{layer}.{part}.weight"] = torch.randn(32, 32)
        weights[f"model.layers.{layer}.input_layernorm.weight"] = torch.rand(32) + 0.5
    return weights


def between(root: Path, now: State) -> Verdict:
    for name, weights in (("now", now), ("then", state())):
        (root / name).mkdir()
        save_file(weights, root / name / "model.safetensors")
    return judged(root)


def judged(root: Path) -> Verdict:
    request = ScanRequest(path=str(root / "now"), baseline=str(root / "then"))
    found = read(request, no_stage, lambda note: None)
    assert isinstance(found, Checkpoint)
    return judge("CKP007")(checkpoint=found)


def only(
    part: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[str, torch.Tensor], torch.Tensor]:
    return lambda name, each: change(each) if part in name and each.ndim > 1 else each


@pytest.mark.parametrize(
    ("part", "change", "status", "words"),
    [
        ("nothing", torch.clone, Status.PASS, "tensors changed"),
        ("layers.2.", torch.randn_like, Status.FAIL, "3 matrices of layer 2 (MLP, attention)"),
        ("layers.1.mlp", torch.randn_like, Status.FAIL, "layers.1.mlp.up_proj.weight has nothing"),
        ("lm_head", torch.randn_like, Status.WARN, "lm_head.weight has nothing in common"),
        ("layers.3.", lambda each: each * 8, Status.WARN, "8 times what they were"),
        ("weight", torch.randn_like, Status.WARN, "most of 14 matrices"),
        ("weight", lambda each: each * 0.05, Status.WARN, "weight decay alone"),
    ],
)
def test_matrices_far_from_the_baseline(
    tmp_path: Path,
    part: str,
    change: Callable[[torch.Tensor], torch.Tensor],
    status: Status,
    words: str,
) -> None:
    later = {name: each * (1 + 0.01 * torch.randn(each.shape)) for name, each in state().items()}
    torch.manual_seed(1)
    changed = only(part, change)
    verdict = between(tmp_path, {name: changed(name, each) for name, each in later.items()})
    assert verdict.status is status, verdict.summary
    assert words in verdict.summary


def test_a_long_training_is_silent(tmp_path: Path) -> None:
    torch.manual_seed(2)
    verdict = between(tmp_path, {n: e + 0.7 * torch.randn(e.shape) for n, e in state().items()})
    assert verdict.status is Status.PASS, verdict.summary


def test_values_of_another_place_in_the_baseline_are_named(tmp_path: Path) -> None:
    before, one, two = (
        state(),
        "model.layers.1.mlp.up_proj.weight",
        "model.layers.2.mlp.up_proj.weight",
    )
    turned = between(tmp_path, before | {one: before[one].T.contiguous()})
    assert turned.status is Status.FAIL
    assert f"{one}: the baseline's values, transposed" in turned.summary
    (tmp_path / "swapped").mkdir()
    swapped = between(tmp_path / "swapped", before | {one: before[two], two: before[one]})
    assert swapped.status is Status.WARN
    assert f"{one} holds those of {two}" in swapped.summary


def test_layers_that_were_removed_on_purpose_are_a_note(tmp_path: Path) -> None:
    later = {1: 0, 2: 1, 3: 2}
    kept = {name: each for name, each in state().items() if "layers.0." not in name}
    for old, new in later.items():
        kept = {
            name.replace(f"layers.{old}.", f"layers.{new}."): each for name, each in kept.items()
        }
    found = between(tmp_path, kept)
    assert found.status is Status.NOTE
    assert "in other places" in found.summary


def test_another_layout_of_all_matrices_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "then").mkdir()
    (tmp_path / "now").mkdir()
    wide = {f"model.layers.{layer}.mlp.gate_proj.weight": torch.randn(48, 32) for layer in range(4)}
    before = state() | wide
    after = {
        name: each.T.contiguous() if "o_proj" in name or "gate_proj" in name else each
        for name, each in before.items()
    }
    save_file(before, tmp_path / "then" / "model.safetensors")
    save_file(after, tmp_path / "now" / "model.safetensors")
    found = judged(tmp_path)
    assert found.status is Status.NOTE
    assert "another layout" in found.summary


def test_layers_that_were_inserted_are_a_note_and_named(tmp_path: Path) -> None:
    before = state()
    after = {name: each for name, each in before.items() if "layers." not in name}
    for new, old in enumerate((0, 1, 1, 2, 3)):
        part = {name: each for name, each in before.items() if f"layers.{old}." in name}
        after |= {name.replace(f".{old}.", f".{new}."): each.clone() for name, each in part.items()}
    found = between(tmp_path, after)
    assert found.status is Status.NOTE
    assert "layers inserted at 2:" in found.summary


def test_a_symmetric_matrix_is_its_own_transposed(tmp_path: Path) -> None:
    before, name = state(), "model.layers.1.mlp.up_proj.weight"
    changed = before | {name: before[name] * 1.01}
    assert between(tmp_path, changed).status is not Status.FAIL
