"""Checkpoints as the libraries leave them: what is recognised, and that every offset is right.

DeepSpeed and Megatron-LM are not installed here: their files are written with torch.save in the
shapes that their sources describe, which proves the arithmetic and not the shape. What Lightning
itself writes is in test_lightning.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from saved_layouts import (
    llama,
    same,
    scan_tensors,
    state,
    stepped,
)

from doctor._util.records import Unknown
from doctor.checkpoint.records import Optimizer
from doctor.checkpoint.scan import scan

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("quietly")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of transformers' Trainer that saved at steps 2 and 4."""
    from transformers import Trainer, TrainingArguments

    out = tmp_path_factory.mktemp("trainer")
    ids = [torch.randint(0, 64, (8,)) for _ in range(16)]
    arguments = TrainingArguments(
        output_dir=str(out), max_steps=4, save_steps=2, logging_steps=1, use_cpu=True,
        per_device_train_batch_size=2, report_to=[], disable_tqdm=True,
    )  # fmt: skip
    data = [{"input_ids": one, "labels": one} for one in ids]
    Trainer(model=llama(), args=arguments, train_dataset=data).train()
    return out


@pytest.mark.slow
def test_a_folder_of_the_trainer(trained: Path) -> None:
    checkpoint, recorder = scan_tensors(trained / "checkpoint-4")
    assert checkpoint.layout == "HF Trainer checkpoint, one safetensors file"
    assert checkpoint.problems == ()
    assert checkpoint.training.steps == 4
    assert {"optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"} == {
        *checkpoint.files.others
    }
    assert {shard.file for shard in recorder.shards} == {"model.safetensors"}
    optimizer = checkpoint.training.optimizer
    assert isinstance(optimizer, Optimizer)
    assert (optimizer.step_min, optimizer.step_max) == (4, 4)
    assert optimizer.moments == {"F32": checkpoint.contents.tensors}
    assert checkpoint.loading.pickles == 1


def test_every_moment_of_the_trainers_optimizer(trained: Path) -> None:
    folder = trained / "checkpoint-4"
    theirs = torch.load(folder / "optimizer.pt", weights_only=True)["state"]
    entries = {entry.key: entry for entry in state(folder).entries}
    assert {*map(str, theirs)} == {*entries}
    for key, kept in theirs.items():
        entry = entries[str(key)]
        assert entry.step == float(kept["step"])
        slots = {slot: kept[slot] for slot in ("exp_avg", "exp_avg_sq")}
        same(folder, {slot: entry.slots[slot] for slot in slots}, slots)


def test_the_run_above_names_a_subfolder(trained: Path) -> None:
    checkpoint = scan(str(trained))
    assert isinstance(checkpoint, Unknown)
    assert "checkpoint-" in checkpoint.reason


def test_a_pickled_model_whole_and_in_shards(tmp_path: Path) -> None:
    model = llama(torch.bfloat16)
    weights = model.state_dict()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(model.config.to_json_string())
    checkpoint, recorder = scan_tensors(tmp_path)
    assert (checkpoint.layout, checkpoint.problems) == ("one pytorch_model.bin", ())
    assert (checkpoint.model.model_type, checkpoint.loading.pickles) == ("llama", 1)
    assert {norm.value for norm in checkpoint.contents.norms} == {"ones"}
    assert len(checkpoint.contents.norms) == 5
    same(tmp_path, recorder.tensors, weights)

    shards = tmp_path / "shards"
    shards.mkdir()
    names = list(weights)
    files = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    where = {name: files[number % 2] for number, name in enumerate(names)}
    for file in files:
        torch.save({name: weights[name] for name in names if where[name] == file}, shards / file)
    index = {"metadata": {}, "weight_map": where}
    (shards / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    checkpoint, recorder = scan_tensors(shards)
    assert (checkpoint.layout, checkpoint.problems) == ("pytorch_model.bin shards", ())
    same(shards, recorder.tensors, weights)
    (shards / files[1]).unlink()
    checkpoint, _ = scan_tensors(shards)
    assert [problem.kind for problem in checkpoint.problems] == ["missing"]


def test_content_decides_and_not_the_name(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    tensors = {"a.weight": torch.arange(6.0).reshape(2, 3)}
    save_file(tensors, str(tmp_path / "a.bin"))
    torch.save(tensors, tmp_path / "b.ckpt", _use_new_zipfile_serialization=False)
    torch.save(tensors, tmp_path / "c")
    for name in ("a.bin", "b.ckpt", "c"):
        checkpoint, recorder = scan_tensors(tmp_path / name)
        assert checkpoint.problems == (), name
        same(tmp_path, recorder.tensors, tensors)
    torch.save(tensors, tmp_path / "d.safetensors")
    checkpoint, _ = scan_tensors(tmp_path / "d.safetensors")
    assert [problem.kind for problem in checkpoint.problems] == ["disguised"]


@pytest.mark.parametrize("safe", [True, False])
def test_an_adapter(tmp_path: Path, safe: bool) -> None:
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(target_modules=["q_proj"], r=2)
    get_peft_model(llama(), lora).save_pretrained(tmp_path, safe_serialization=safe)
    checkpoint, recorder = scan_tensors(tmp_path)
    assert (checkpoint.layout, checkpoint.model.adapter) == ("PEFT adapter", "LORA")
    assert (checkpoint.contents.tensors, checkpoint.problems) == (4, ())
    assert all(".lora_" in name for name in recorder.tensors)
    assert checkpoint.loading.pickles == (0 if safe else 1)


def test_save_state_of_accelerate(tmp_path: Path) -> None:
    from accelerate import Accelerator

    model = llama()
    accelerator = Accelerator(cpu=True)
    model, _ = accelerator.prepare(model, stepped(model))
    accelerator.save_state(str(tmp_path))
    checkpoint, recorder = scan_tensors(tmp_path)
    assert checkpoint.layout == "Accelerate save_state, one safetensors file"
    assert "optimizer.bin" in checkpoint.files.others
    assert any(name.startswith("random_states_") for name in checkpoint.files.others)
    assert isinstance(checkpoint.training.optimizer, Optimizer)
    assert checkpoint.training.optimizer.step_max == 3
    assert "model.norm.weight" in recorder.tensors


def test_ranks_of_megatron(tmp_path: Path) -> None:
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("100\n")
    for rank in range(2):
        folder = tmp_path / "iter_0000100" / f"mp_rank_{rank:02}"
        folder.mkdir(parents=True)
        model = {"decoder.final_layernorm.weight": torch.full((4,), 1.0 + rank)}
        torch.save({"model": model, "iteration": 100}, folder / "model_optim_rng.pt")
    checkpoint, recorder = scan_tensors(tmp_path)
    assert (checkpoint.layout, checkpoint.training.steps) == ("Megatron-LM checkpoint", 100)
    expected = {
        f"rank.{n}.decoder.final_layernorm.weight": torch.full((4,), 1.0 + n) for n in (0, 1)
    }
    same(tmp_path, recorder.tensors, expected)
    assert {norm.name[:6]: norm.value for norm in checkpoint.contents.norms} == {
        "rank.0": "ones",
        "rank.1": "other",
    }
    assert checkpoint.problems == ()
    assert scan_tensors(tmp_path / "iter_0000100")[0].contents.tensors == 2
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("../../etc")
    checkpoint, _ = scan_tensors(tmp_path)
    assert [problem.kind for problem in checkpoint.problems] == ["untagged"]


def test_nanogpt_and_lightning(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    nano = tmp_path / "nano"
    nano.mkdir()
    torch.save(
        {
            "model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": 7,
            "model_args": {"n_layer": 2}, "best_val_loss": torch.tensor(1.0), "config": {},
        },
        nano / "ckpt.pt",
    )  # fmt: skip
    checkpoint, recorder = scan_tensors(nano)
    assert (checkpoint.layout, checkpoint.training.steps, checkpoint.problems) == (
        "nanoGPT checkpoint, one PyTorch file",
        7,
        (),
    )
    same(nano, recorder.tensors, model.state_dict())
    assert isinstance(checkpoint.training.optimizer, Optimizer)
    assert checkpoint.training.optimizer.entries == 4
    light = tmp_path / "light"
    light.mkdir()
    torch.save(
        {
            "pytorch-lightning_version": "2.5.0", "epoch": 1, "global_step": 20, "loops": {},
            "state_dict": model.state_dict(), "optimizer_states": [optimizer.state_dict()],
            "lr_schedulers": [], "callbacks": {},
        },
        light / "last.ckpt",
    )  # fmt: skip
    torch.save({"state_dict": {}}, light / "epoch=0.ckpt")
    checkpoint, recorder = scan_tensors(light)
    assert checkpoint.layout == "Lightning checkpoint, one .ckpt file"
    assert checkpoint.training.steps == 20
    same(light, recorder.tensors, model.state_dict())
    assert isinstance(checkpoint.training.optimizer, Optimizer)
    assert [problem.kind for problem in checkpoint.problems] == ["note"]
    assert "one of 2" in checkpoint.problems[0].text


def test_consolidated_files_and_strided_norms(tmp_path: Path) -> None:
    for rank in range(2):
        torch.save({"norm.weight": torch.ones(6)}, tmp_path / f"consolidated.{rank:02}.pth")
    checkpoint, _ = scan_tensors(tmp_path)
    assert checkpoint.contents.tensors == 2
    assert [norm.value for norm in checkpoint.contents.norms] == ["ones", "ones"]
    wide = torch.zeros(6, 2)
    wide[:, 0] = 1
    views = {"norm.weight": wide[:, 0], "zero_norm.weight": wide[:, 1]}
    torch.save(views, tmp_path / "views.pt")
    checkpoint, _ = scan_tensors(tmp_path / "views.pt")
    assert {norm.name: norm.value for norm in checkpoint.contents.norms} == {
        "norm.weight": "ones",
        "zero_norm.weight": "zeros",
    }
