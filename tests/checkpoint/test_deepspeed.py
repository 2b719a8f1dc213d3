"""DeepSpeed's ZeRO 1, 2 and 3."""

from __future__ import annotations

import math
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from saved_layouts import (
    GROUPS,
    NAMES,
    masters,
    padded,
    same,
    scan_tensors,
    shapes,
    state,
    zero_two,
)

from doctor.checkpoint.layouts.zero_flat import group_slices, rank_slices
from doctor.checkpoint.records import Optimizer
from doctor.checkpoint.tensors import Tensor

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("quietly")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_masters_of_zero_two(tmp_path: Path, ranks: int) -> None:
    whole = zero_two(tmp_path, ranks)
    checkpoint, recorder = scan_tensors(tmp_path)
    assert (checkpoint.layout, checkpoint.problems) == ("DeepSpeed checkpoint", ())
    assert checkpoint.training.steps == 6
    same(tmp_path, recorder.tensors, {name: one.to(torch.bfloat16) for name, one in whole.items()})
    known = state(tmp_path)
    assert not known.low_masters
    same(tmp_path, {master.name: master for master in known.masters}, whole)
    for entry in known.entries:
        assert entry.step == 6
        master = whole[entry.key]
        same(tmp_path, entry.slots, {"exp_avg": master * 2, "exp_avg_sq": master * master})
    assert [group.keys for group in known.groups] == list(GROUPS)
    assert [group.lr for group in known.groups] == [1e-4, 1e-4]
    assert isinstance(checkpoint.training.optimizer, Optimizer)
    assert checkpoint.training.optimizer.masters == {"F32": 4}


def test_the_engines_folder_itself_and_a_trainers(tmp_path: Path) -> None:
    whole = zero_two(tmp_path, 2)
    assert scan_tensors(tmp_path / "global_step6")[0].contents.tensors == 4
    from safetensors.torch import save_file

    save_file({name: one.half() for name, one in whole.items()}, tmp_path / "model.safetensors")
    (tmp_path / "trainer_state.json").write_text('{"global_step": 6, "log_history": []}')
    checkpoint, recorder = scan_tensors(tmp_path)
    assert checkpoint.layout == "HF Trainer checkpoint, one safetensors file"
    assert {shard.file for shard in recorder.shards} == {"model.safetensors"}
    assert isinstance(checkpoint.training.optimizer, Optimizer)
    assert checkpoint.training.optimizer.masters == {"F32": 4}


def test_masters_that_were_left_out(tmp_path: Path) -> None:
    zero_two(tmp_path, 2, bf16_master_weights_and_grads=True)
    assert state(tmp_path).low_masters


def test_ranks_that_are_missing(tmp_path: Path) -> None:
    zero_two(tmp_path, 3)
    (tmp_path / "global_step6" / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    checkpoint, _ = scan_tensors(tmp_path)
    assert [problem.kind for problem in checkpoint.problems] == ["lost-rank"]
    assert "2 of 3" in checkpoint.problems[0].text
    (tmp_path / "latest").write_text("global_step7")
    checkpoint, _ = scan_tensors(tmp_path)
    assert "global_step7" in checkpoint.problems[0].text


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_weights_of_zero_three(tmp_path: Path, ranks: int) -> None:
    """The parameters are in the ranks' flat groups alone, here in two subgroups."""
    whole = masters()
    pieces: list[list[Any]] = [[] for _ in range(ranks)]
    for name in NAMES:
        each = math.ceil(whole[name].numel() / ranks)
        chunks = padded(whole[name].flatten(), each * ranks).split(each)
        for rank in range(ranks):
            pieces[rank].append(chunks[rank])
    frozen = torch.arange(6.0)
    for rank in range(ranks):
        each = math.ceil(6 / ranks)
        fragment = padded(frozen, each * ranks).split(each)[rank].clone()
        model = {
            "module": {"buffer": torch.ones(2), **{name: torch.zeros(0) for name in NAMES}},
            "param_shapes": shapes([list(NAMES)]), "global_steps": 9,
            "frozen_param_shapes": OrderedDict(still=torch.Size([6])),
            "frozen_param_fragments": {"still": fragment}, "ds_config": {},
        }  # fmt: skip
        torch.save(model, tmp_path / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        flats = [torch.cat(pieces[rank][:2]), torch.cat(pieces[rank][2:])]
        inner = {"state": {n: {"step": 9, "exp_avg": -flat} for n, flat in enumerate(flats)}}
        kept = {
            "zero_stage": 3, "partition_count": ranks, "fp32_flat_groups": flats,
            "optimizer_state_dict": {**inner, "param_groups": [{"lr": 0.1, "params": [0]}]},
        }  # fmt: skip
        file = tmp_path / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": kept}, file)
    checkpoint, recorder = scan_tensors(tmp_path)
    assert (checkpoint.layout, checkpoint.problems) == ("DeepSpeed checkpoint", ())
    same(tmp_path, recorder.tensors, {**whole, "buffer": torch.ones(2), "still": frozen})
    known = state(tmp_path)
    for entry in known.entries:
        assert entry.step == 9
        same(tmp_path, entry.slots, {"exp_avg": -whole[entry.key]})
    assert [group.lr for group in known.groups] == [0.1]


def test_flat_groups_of_another_save_are_told() -> None:
    from doctor.checkpoint.errors import CheckpointError

    flat = Tensor("flat", "F32", (20,), 20, "f", 0, 80)
    with pytest.raises(CheckpointError, match="shorter"):
        group_slices([{"a": (21,)}], [[flat]])
    with pytest.raises(CheckpointError, match="not of one save"):
        group_slices([{"a": (10,)}], [[flat]])
    with pytest.raises(CheckpointError, match="not of one save"):
        rank_slices([{"a": (19,)}], [[flat]])
    with pytest.raises(CheckpointError, match="groups"):
        group_slices([{"a": (20,)}, {"b": (1,)}], [[flat]])


def test_stage_zero_keeps_the_optimizer_in_the_file_of_the_module(tmp_path: Path) -> None:
    """The unfused optimizer of fp16 and bf16: entries and fp32 copies by number."""
    made = torch.nn.Sequential(OrderedDict(l=torch.nn.Linear(8, 8), norm=torch.nn.LayerNorm(8)))
    adam = torch.optim.AdamW(made.parameters(), lr=1e-4)
    for _ in range(12):
        made(torch.randn(4, 8)).square().mean().backward()
        adam.step()
        adam.zero_grad()
    groups = [[one.detach().clone() for one in made.parameters()]]
    groups[0][2] += 0.01
    module = {name: one.detach().bfloat16() for name, one in made.state_dict().items()}
    module["norm.weight"] = torch.ones(8, dtype=torch.bfloat16)
    wrapper = {"optimizer_state_dict": adam.state_dict(), "fp32_groups": groups, "clip_grad": 0.0}
    engine = {"module": module, "optimizer": wrapper, "param_shapes": None, "global_steps": 12}
    (tmp_path / "global_step12").mkdir()
    torch.save(engine, tmp_path / "global_step12" / "mp_rank_00_model_states.pt")
    (tmp_path / "latest").write_text("global_step12")
    checkpoint, recorder = scan_tensors(tmp_path)
    assert set(recorder.tensors) == set(module)
    known = checkpoint.training.optimizer
    assert isinstance(known, Optimizer)
    assert (known.kind, known.entries, known.masters, known.lr) == ("Adam", 4, {"F32": 4}, (1e-4,))
    assert known.norms is not None
    assert (known.norms.matched_by, known.norms.masters_changed) == ("order", 1)


def test_the_universal_form(tmp_path: Path) -> None:
    """A directory for each parameter: fp32 copies, moments and steps by the parameters' names."""
    whole = masters()
    under = tmp_path / "global_step6_universal"
    for name, one in whole.items():
        (under / "zero" / name).mkdir(parents=True)
        for slot, value in (("fp32", one), ("exp_avg", one * 2), ("exp_avg_sq", one * one)):
            torch.save({"param": value, "cat_dim": 0}, under / "zero" / name / f"{slot}.pt")
        torch.save(torch.tensor(6.0), under / "zero" / name / "step.pt")
    options = {"lr": 1e-4, "weight_decay": 0.01, "params": [0]}
    torch.save({"param_groups": [options]}, under / "zero" / "optimizer_state.pt")
    module = {name: one.bfloat16() for name, one in whole.items()}
    torch.save({"module": module, "global_steps": 6}, under / "mp_rank_00_model_states.pt")
    (tmp_path / "latest_universal").write_text("global_step6_universal")
    for path in (under, tmp_path):
        checkpoint, _ = scan_tensors(path)
        assert checkpoint.problems == ()
        known = checkpoint.training.optimizer
        assert isinstance(known, Optimizer)
        assert (known.kind, known.entries, known.masters) == ("Adam", 4, {"F32": 4})
        assert (known.step_max, known.lr, known.missing) == (6.0, (1e-4,), 0)
    read = state(under)
    same(under, {master.name: master for master in read.masters}, whole)
    (under / "zero" / "a.bias" / "exp_avg.pt").write_bytes(b"PK\x03\x04 cut")
    assert any("exp_avg.pt" in problem.file for problem in scan_tensors(under)[0].problems)
