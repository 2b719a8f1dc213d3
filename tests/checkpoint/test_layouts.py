"""Checkpoints as the libraries leave them: what is recognised, and that every offset is right.

DeepSpeed and Megatron-LM are not installed here: their files are written with torch.save in the
shapes that their sources describe, which proves the arithmetic and not the shape. What Lightning
itself writes is in test_lightning.py.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import struct
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from dcp_ranks import divided, save_as_rank

from doctor._util.records import Unknown
from doctor.checkpoint.io.files import Folder, LocalFolder
from doctor.checkpoint.layouts.zero_flat import group_slices, rank_slices
from doctor.checkpoint.reader import one_state, read_layout
from doctor.checkpoint.records import Checkpoint, Optimizer
from doctor.checkpoint.scan import quiet, scan
from doctor.checkpoint.tensors import OptimizerState, Part, Shard, Tensor

torch = pytest.importorskip("torch")

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 64,
}


class Heard:
    """What a scan tells of tensors."""

    def __init__(self) -> None:
        self.shards: Sequence[Shard] = ()

    def __call__(self, folder: Folder, shards: Sequence[Shard]) -> None:
        self.folder, self.shards = folder, shards

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {tensor.name: tensor for shard in self.shards for tensor in shard.tensors}


def heard(path: Path) -> tuple[Checkpoint, Heard]:
    ear = Heard()
    found = scan(str(path), quiet, ear)
    assert isinstance(found, Checkpoint), found
    return found, ear


def state(path: Path) -> OptimizerState:
    from doctor.checkpoint.layouts.directory import lay_out

    layout = lay_out(str(path))
    assert not isinstance(layout, Unknown)
    read = read_layout(layout, quiet)
    found = one_state([*read.shards, *read.others])
    assert found is not None
    return found


DTYPES = {
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I64": torch.int64,
    "F64": torch.float64,
}


def value(root: Path, tensor: Tensor) -> Any:
    """The tensor by the bytes that the reader points at."""
    parts = tensor.parts or (Part(tensor.file, tensor.begin, tensor.end),)
    data = b""
    for part in parts:
        with (root / part.file).open("rb") as file:
            file.seek(part.begin)
            data += file.read(part.end - part.begin)
    flat = torch.frombuffer(bytearray(data), dtype=DTYPES[tensor.dtype])
    if tensor.strides is not None:
        return torch.as_strided(flat, tensor.shape, tensor.strides)
    return flat.reshape(tensor.shape)


def same(root: Path, tensors: dict[str, Tensor], expected: dict[str, Any]) -> None:
    """Names, shapes, dtypes and every byte."""
    assert tensors.keys() == expected.keys()
    for name, tensor in tensors.items():
        theirs = expected[name]
        assert tensor.shape == tuple(theirs.shape), name
        assert DTYPES[tensor.dtype] == theirs.dtype, name
        assert torch.equal(value(root, tensor), theirs), name


def llama(dtype: Any = None) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    return model if dtype is None else model.to(dtype)


def stepped(model: Any, steps: int = 3) -> Any:
    """An AdamW that has made some steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        ids = torch.randint(0, 64, (2, 8))
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


@pytest.fixture(autouse=True)
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- transformers and peft -------------------------------------------------------------------


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
    found, ear = heard(trained / "checkpoint-4")
    assert found.layout == "HF Trainer checkpoint, one safetensors file"
    assert found.problems == ()
    assert found.step == 4
    assert {"optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"} == {*found.beside}
    assert {shard.file for shard in ear.shards} == {"model.safetensors"}
    optimizer = found.optimizer
    assert isinstance(optimizer, Optimizer)
    assert (optimizer.step_min, optimizer.step_max) == (4, 4)
    assert optimizer.moments == {"F32": found.tensors}
    assert found.pickles == 1


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
    found = scan(str(trained))
    assert isinstance(found, Unknown)
    assert "checkpoint-" in found.reason


def test_a_pickled_model_whole_and_in_shards(tmp_path: Path) -> None:
    model = llama(torch.bfloat16)
    weights = model.state_dict()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(model.config.to_json_string())
    found, ear = heard(tmp_path)
    assert (found.layout, found.problems) == ("one pytorch_model.bin", ())
    assert (found.model_type, found.pickles) == ("llama", 1)
    assert {norm.value for norm in found.norms} == {"ones"}
    assert len(found.norms) == 5
    same(tmp_path, ear.tensors, weights)

    shards = tmp_path / "shards"
    shards.mkdir()
    names = list(weights)
    files = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    where = {name: files[number % 2] for number, name in enumerate(names)}
    for file in files:
        torch.save({name: weights[name] for name in names if where[name] == file}, shards / file)
    index = {"metadata": {}, "weight_map": where}
    (shards / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    found, ear = heard(shards)
    assert (found.layout, found.problems) == ("pytorch_model.bin shards", ())
    same(shards, ear.tensors, weights)
    (shards / files[1]).unlink()
    found, _ = heard(shards)
    assert [problem.kind for problem in found.problems] == ["missing"]


def test_content_decides_and_not_the_name(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    tensors = {"a.weight": torch.arange(6.0).reshape(2, 3)}
    save_file(tensors, str(tmp_path / "a.bin"))
    torch.save(tensors, tmp_path / "b.ckpt", _use_new_zipfile_serialization=False)
    torch.save(tensors, tmp_path / "c")
    for name in ("a.bin", "b.ckpt", "c"):
        found, ear = heard(tmp_path / name)
        assert found.problems == (), name
        same(tmp_path, ear.tensors, tensors)
    torch.save(tensors, tmp_path / "d.safetensors")
    found, _ = heard(tmp_path / "d.safetensors")
    assert [problem.kind for problem in found.problems] == ["disguised"]


@pytest.mark.parametrize("safe", [True, False])
def test_an_adapter(tmp_path: Path, safe: bool) -> None:
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(target_modules=["q_proj"], r=2)
    get_peft_model(llama(), lora).save_pretrained(tmp_path, safe_serialization=safe)
    found, ear = heard(tmp_path)
    assert (found.layout, found.adapter) == ("PEFT adapter", "LORA")
    assert (found.tensors, found.problems) == (4, ())
    assert all(".lora_" in name for name in ear.tensors)
    assert found.pickles == (0 if safe else 1)


def test_save_state_of_accelerate(tmp_path: Path) -> None:
    from accelerate import Accelerator

    model = llama()
    accelerator = Accelerator(cpu=True)
    model, _ = accelerator.prepare(model, stepped(model))
    accelerator.save_state(str(tmp_path))
    found, ear = heard(tmp_path)
    assert found.layout == "Accelerate save_state, one safetensors file"
    assert "optimizer.bin" in found.beside
    assert any(name.startswith("random_states_") for name in found.beside)
    assert isinstance(found.optimizer, Optimizer)
    assert found.optimizer.step_max == 3
    assert "model.norm.weight" in ear.tensors


# --- torch.distributed.checkpoint ------------------------------------------------------------


def saved(folder: Path, states: dict[str, Any]) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save(states, checkpoint_id=str(folder))


def states_of(model: Any, optimizer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    return get_state_dict(model, optimizer)


def test_a_distributed_checkpoint(tmp_path: Path) -> None:
    model = llama(torch.bfloat16)
    optimizer = stepped(model)
    weights, kept = states_of(model, optimizer)
    saved(tmp_path, {"model": weights, "optimizer": kept, "train_state": {"step": 3}})
    found, ear = heard(tmp_path)
    assert (found.layout, found.problems) == ("torch.distributed.checkpoint", ())
    assert found.step == 3
    assert not found.refused
    assert "torch.distributed.checkpoint.metadata.Metadata" in found.imports
    same(tmp_path, ear.tensors, dict(weights))
    assert {norm.value for norm in found.norms} == {"ones"}

    entries = {entry.key: entry for entry in state(tmp_path).entries}
    assert {*entries} == {*kept["state"]}
    for name, slots in kept["state"].items():
        assert entries[name].step == 3
        theirs = {slot: slots[slot] for slot in ("exp_avg", "exp_avg_sq")}
        same(tmp_path, entries[name].slots, theirs)
    groups = state(tmp_path).groups
    assert [group.lr for group in groups] == [1e-3]
    assert {*groups[0].keys} == {*weights}
    assert isinstance(found.optimizer, Optimizer)
    assert found.optimizer.norms is not None
    assert (found.optimizer.norms.by, found.optimizer.norms.moving) == ("names", 5)


def test_the_folder_of_torchtitan(tmp_path: Path) -> None:
    """Weights stand at the top there, and the optimizer is flat."""
    model = llama()
    weights, kept = states_of(model, stepped(model))
    flat = {
        f"state.{name}.{slot}": tensor
        for name, slots in kept["state"].items()
        for slot, tensor in slots.items()
    } | {f"param_groups.{name}.lr": 2e-4 for name in kept["state"]}
    folder = tmp_path / "step-10"
    saved(folder, {**weights, "optimizer": flat, "lr_scheduler": {"last_epoch": 3}})
    found, ear = heard(folder)
    assert found.layout == "torchtitan checkpoint (torch.distributed.checkpoint)"
    same(folder, ear.tensors, dict(weights))
    known = state(folder)
    assert {entry.key for entry in known.entries} == {*weights}
    assert [(group.lr, len(group.keys)) for group in known.groups] == [(2e-4, len(weights))]


def test_fsdp_folders_of_accelerate(tmp_path: Path) -> None:
    model = llama()
    weights, kept = states_of(model, stepped(model))
    saved(tmp_path / "pytorch_model_fsdp_0", {"model": weights})
    saved(tmp_path / "optimizer_0", {"optimizer": kept})
    torch.save({"a": 1}, tmp_path / "scheduler.pt")
    (tmp_path / "trainer_state.json").write_text('{"global_step": 3, "log_history": []}')
    found, ear = heard(tmp_path)
    said = "FSDP of Accelerate (torch.distributed.checkpoint)"
    assert (found.layout, found.problems) == (f"HF Trainer checkpoint, {said}", ())
    same(tmp_path, ear.tensors, dict(weights))
    assert isinstance(found.optimizer, Optimizer)
    assert found.optimizer.entries == len(weights)
    assert {shard.file for shard in ear.shards} == {
        "pytorch_model_fsdp_0/.metadata",
        "pytorch_model_fsdp_0/__0_0.distcp",
    }
    torch.save(dict(weights), tmp_path / "pytorch_model_fsdp.bin")
    alone = tmp_path / "full"
    alone.mkdir()
    (tmp_path / "pytorch_model_fsdp.bin").rename(alone / "pytorch_model_fsdp.bin")
    found, ear = heard(alone)
    assert found.layout == "one PyTorch file" or "FSDP" in found.layout
    same(alone, ear.tensors, dict(weights))


@pytest.mark.slow
def test_tensors_of_two_processes(tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    torch.multiprocessing.spawn(save_as_rank, (port, str(tmp_path)), nprocs=2)
    found, ear = heard(tmp_path)
    assert found.problems == ()
    same(tmp_path, ear.tensors, divided())
    assert len(ear.tensors["rows"].parts) == 2
    assert len(ear.tensors["columns"].parts) == 8
    assert {norm.name: norm.value for norm in found.norms} == {
        "norm.weight": "ones",
        "other_norm.weight": "other",
    }
    assert found.dtypes == {"F32": 4 * (28 + 24 + 10)}

    (tmp_path / "__1_0.distcp").rename(tmp_path / "away")
    found, _ = heard(tmp_path)
    kinds = [problem.kind for problem in found.problems]
    assert kinds[0] == "missing"
    assert "__1_0.distcp" in found.problems[0].text
    assert "damaged" in kinds
    (tmp_path / "__1_0.distcp").write_bytes((tmp_path / "away").read_bytes()[:-100])
    found, _ = heard(tmp_path)
    assert "cut short" in found.problems[0].text


def test_the_export_for_hugging_face(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageWriter

    weights = {"a.weight": torch.randn(3, 4), "norm.weight": torch.ones(4)}
    writer = HuggingFaceStorageWriter(path=str(tmp_path), save_distributed=True)
    dcp.save(weights, storage_writer=writer)
    found, ear = heard(tmp_path)
    assert "safetensors" in found.layout
    assert not [one for one in found.problems if one.kind in ("damaged", "twice")]
    same(tmp_path, ear.tensors, weights)


def test_metadata_leads_nowhere_else(tmp_path: Path) -> None:
    """A path is cut to its last part, and a place beyond the file is told."""
    import pickle

    import torch.distributed.checkpoint as dcp

    folder = tmp_path / "checkpoint"
    saved(folder, {"w": torch.ones(3)})
    metadata = dcp.FileSystemReader(str(folder)).read_metadata()
    (place,) = metadata.storage_data.values()

    def rewritten(**fields: Any) -> Checkpoint:
        for name, field in fields.items():
            object.__setattr__(place, name, field)
        (folder / ".metadata").write_bytes(pickle.dumps(metadata))
        return heard(folder)[0]

    found = rewritten(relative_path="../../__0_0.distcp")
    assert (found.tensors, found.problems) == (1, ())
    found = rewritten(offset=1 << 40)
    assert (found.tensors, found.problems[0].kind) == (0, "damaged")
    found = rewritten(offset=-1)
    assert found.problems[0].kind == "damaged"
    found = rewritten(offset=0, transform_descriptors=["zstd"])
    assert found.not_inspectable
    assert "transforms" in found.problems[0].text


# --- DeepSpeed -------------------------------------------------------------------------------


NAMES = {"a.weight": (5, 3), "a.bias": (5,), "norm.weight": (7,), "b.weight": (2, 9)}


def masters() -> dict[str, Any]:
    torch.manual_seed(1)
    return {name: torch.randn(shape) for name, shape in NAMES.items()}


def shapes(groups: Sequence[Sequence[str]]) -> list[Any]:
    return [OrderedDict((name, torch.Size(NAMES[name])) for name in group) for group in groups]


GROUPS = (("a.weight", "b.weight"), ("a.bias", "norm.weight"))


def padded(flat: Any, length: int) -> Any:
    return torch.cat([flat, torch.zeros(length - flat.numel())])


def zero_two(folder: Path, ranks: int, **more: Any) -> dict[str, Any]:
    """global_step files as ZeRO 1 and 2 write them; gives the masters."""
    whole = masters()
    under = folder / "global_step6"
    under.mkdir(parents=True)
    (folder / "latest").write_text("global_step6")
    (folder / "zero_to_fp32.py").write_text("")
    module = OrderedDict((name, tensor.to(torch.bfloat16)) for name, tensor in whole.items())
    model = {
        "module": module, "param_shapes": shapes(GROUPS), "buffer_names": [], "global_steps": 6,
        "ds_config": {"bf16": {"enabled": True, **more}}, "ds_version": "0.17.0",
        "dp_world_size": ranks, "frozen_param_shapes": None,
    }  # fmt: skip
    torch.save(model, under / "mp_rank_00_model_states.pt")
    flats = []
    for group in GROUPS:
        flat = torch.cat([whole[name].flatten() for name in group])
        size = math.ceil(flat.numel() / (2 * ranks)) * 2 * ranks
        flats.append(padded(flat, size).chunk(ranks))
    for rank in range(ranks):
        mine = [chunks[rank].clone() for chunks in flats]
        base = {
            "state": {
                index: {"step": torch.tensor(6.0), "exp_avg": flat * 2, "exp_avg_sq": flat * flat}
                for index, flat in enumerate(mine)
            },
            "param_groups": [{"lr": 1e-4, "weight_decay": 0.1, "params": [n]} for n in range(2)],
        }
        kept = {
            "zero_stage": 2, "partition_count": [ranks, ranks], "loss_scaler": None,
            "single_partition_of_fp32_groups": mine, "base_optimizer_state": base,
        }  # fmt: skip
        file = under / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": kept, "ds_version": "0.17.0"}, file)
    return whole


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_masters_of_zero_two(tmp_path: Path, ranks: int) -> None:
    whole = zero_two(tmp_path, ranks)
    found, ear = heard(tmp_path)
    assert (found.layout, found.problems) == ("DeepSpeed checkpoint", ())
    assert found.step == 6
    same(tmp_path, ear.tensors, {name: one.to(torch.bfloat16) for name, one in whole.items()})
    known = state(tmp_path)
    assert not known.low_masters
    same(tmp_path, {master.name: master for master in known.masters}, whole)
    for entry in known.entries:
        assert entry.step == 6
        master = whole[entry.key]
        same(tmp_path, entry.slots, {"exp_avg": master * 2, "exp_avg_sq": master * master})
    assert [group.keys for group in known.groups] == list(GROUPS)
    assert [group.lr for group in known.groups] == [1e-4, 1e-4]
    assert isinstance(found.optimizer, Optimizer)
    assert found.optimizer.masters == {"F32": 4}


def test_the_engines_folder_itself_and_a_trainers(tmp_path: Path) -> None:
    whole = zero_two(tmp_path, 2)
    assert heard(tmp_path / "global_step6")[0].tensors == 4
    from safetensors.torch import save_file

    save_file({name: one.half() for name, one in whole.items()}, tmp_path / "model.safetensors")
    (tmp_path / "trainer_state.json").write_text('{"global_step": 6, "log_history": []}')
    found, ear = heard(tmp_path)
    assert found.layout == "HF Trainer checkpoint, one safetensors file"
    assert {shard.file for shard in ear.shards} == {"model.safetensors"}
    assert isinstance(found.optimizer, Optimizer)
    assert found.optimizer.masters == {"F32": 4}


def test_masters_that_were_left_out(tmp_path: Path) -> None:
    zero_two(tmp_path, 2, bf16_master_weights_and_grads=True)
    assert state(tmp_path).low_masters


def test_ranks_that_are_missing(tmp_path: Path) -> None:
    zero_two(tmp_path, 3)
    (tmp_path / "global_step6" / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    found, _ = heard(tmp_path)
    assert [problem.kind for problem in found.problems] == ["missing"]
    assert "2 of 3" in found.problems[0].text
    (tmp_path / "latest").write_text("global_step7")
    found, _ = heard(tmp_path)
    assert "global_step7" in found.problems[0].text


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
    found, ear = heard(tmp_path)
    assert (found.layout, found.problems) == ("DeepSpeed checkpoint", ())
    same(tmp_path, ear.tensors, {**whole, "buffer": torch.ones(2), "still": frozen})
    known = state(tmp_path)
    for entry in known.entries:
        assert entry.step == 9
        same(tmp_path, entry.slots, {"exp_avg": -whole[entry.key]})
    assert [group.lr for group in known.groups] == [0.1]


def test_flat_groups_of_another_save_are_told() -> None:
    from doctor.checkpoint.io.files import Wrong

    flat = Tensor("flat", "F32", (20,), 20, "f", 0, 80)
    with pytest.raises(Wrong, match="shorter"):
        group_slices([{"a": (21,)}], [[flat]])
    with pytest.raises(Wrong, match="not of one save"):
        group_slices([{"a": (10,)}], [[flat]])
    with pytest.raises(Wrong, match="not of one save"):
        rank_slices([{"a": (19,)}], [[flat]])
    with pytest.raises(Wrong, match="groups"):
        group_slices([{"a": (20,)}, {"b": (1,)}], [[flat]])


# --- Megatron-LM, Lightning, nanoGPT and files of one's own ------------------------------------


def test_ranks_of_megatron(tmp_path: Path) -> None:
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("100\n")
    for rank in range(2):
        folder = tmp_path / "iter_0000100" / f"mp_rank_{rank:02}"
        folder.mkdir(parents=True)
        model = {"decoder.final_layernorm.weight": torch.full((4,), 1.0 + rank)}
        torch.save({"model": model, "iteration": 100}, folder / "model_optim_rng.pt")
    found, ear = heard(tmp_path)
    assert (found.layout, found.step) == ("Megatron-LM checkpoint", 100)
    expected = {
        f"rank.{n}.decoder.final_layernorm.weight": torch.full((4,), 1.0 + n) for n in (0, 1)
    }
    same(tmp_path, ear.tensors, expected)
    assert {norm.name[:6]: norm.value for norm in found.norms} == {
        "rank.0": "ones",
        "rank.1": "other",
    }
    assert found.problems == ()
    assert heard(tmp_path / "iter_0000100")[0].tensors == 2
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("../../etc")
    found, _ = heard(tmp_path)
    assert [problem.kind for problem in found.problems] == ["missing"]


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
    found, ear = heard(nano)
    assert (found.layout, found.step, found.problems) == (
        "nanoGPT checkpoint, one PyTorch file",
        7,
        (),
    )
    same(nano, ear.tensors, model.state_dict())
    assert isinstance(found.optimizer, Optimizer)
    assert found.optimizer.entries == 4
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
    found, ear = heard(light)
    assert (found.layout, found.step) == ("Lightning checkpoint, one .ckpt file", 20)
    same(light, ear.tensors, model.state_dict())
    assert isinstance(found.optimizer, Optimizer)
    assert [problem.kind for problem in found.problems] == ["note"]
    assert "one of 2" in found.problems[0].text


def test_consolidated_files_and_strided_norms(tmp_path: Path) -> None:
    for rank in range(2):
        torch.save({"norm.weight": torch.ones(6)}, tmp_path / f"consolidated.{rank:02}.pth")
    found, _ = heard(tmp_path)
    assert found.tensors == 2
    assert [norm.value for norm in found.norms] == ["ones", "ones"]
    wide = torch.zeros(6, 2)
    wide[:, 0] = 1
    views = {"norm.weight": wide[:, 0], "zero_norm.weight": wide[:, 1]}
    torch.save(views, tmp_path / "views.pt")
    found, _ = heard(tmp_path / "views.pt")
    assert {norm.name: norm.value for norm in found.norms} == {
        "norm.weight": "ones",
        "zero_norm.weight": "zeros",
    }


# --- GGUF ------------------------------------------------------------------------------------


def text(said: str) -> bytes:
    return struct.pack("<Q", len(said)) + said.encode()


def gguf(tensors: dict[str, tuple[tuple[int, ...], int, bytes]], version: int = 3) -> bytes:
    """A file by ggml's description: keys of each kind, then tensors aligned to 32 bytes."""
    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("general.alignment") + struct.pack("<II", 4, 32),
        text("llama.rope.freq_base") + struct.pack("<If", 6, 1e4),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("<s>") + text("a"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQff", 9, 6, 2, 0.0, 1.0),
    ]
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys)
    data = b""
    for name, (shape, kind, content) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def model_of_gguf() -> dict[str, tuple[tuple[int, ...], int, bytes]]:
    norm = torch.ones(5).numpy().tobytes()
    return {
        "blk.0.attn_norm.weight": ((5,), 0, norm),
        "blk.0.attn_q.weight": ((2, 32), 2, bytes(36)),
        "output.weight": ((2, 3), 30, bytes(12)),
        "output_norm.weight": ((5,), 0, struct.pack("<5f", 1, 1, 1, 1, 2)),
    }


def test_a_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(gguf(model_of_gguf()))
    found, ear = heard(tmp_path)
    assert (found.layout, found.problems) == ("one GGUF file", ())
    assert found.dtypes == {"F32": 40, "Q4_0": 36, "BF16": 12}
    assert ear.tensors["blk.0.attn_q.weight"].shape == (2, 32)
    assert {norm.name: norm.value for norm in found.norms} == {
        "blk.0.attn_norm.weight": "ones",
        "output_norm.weight": "other",
    }
    shard = ear.shards[0]
    assert shard.metadata["general.architecture"] == "llama"
    assert torch.equal(
        value(tmp_path, ear.tensors["output_norm.weight"]), torch.tensor([1.0, 1, 1, 1, 2])
    )


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (gguf(model_of_gguf())[:-40], "damaged", "cut short"),
        (gguf(model_of_gguf())[:90], "damaged", "header"),
        (gguf(model_of_gguf(), version=1), "not-inspectable", "version 1"),
        (gguf(model_of_gguf(), version=3 << 24), "not-inspectable", "big-endian"),
        (gguf({"a": ((33,), 2, bytes(18))}), "damaged", "rows of 33"),
        (gguf({"a": ((1, 1, 1, 1, 1), 0, bytes(4))}), "damaged", "5 dimensions"),
        (gguf({"a": ((1 << 40, 1 << 40), 0, bytes(4))}), "damaged", "2^63"),
        (gguf({"a": ((4,), 99, bytes(4))}), "note", "ggml type 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1), "damaged", "tensors"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 60),
            "not-inspectable",
            "more words",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 0, 1 << 60),
            "damaged",
            "longer",
        ),
        (
            b"GGUF"
            + struct.pack("<IQQ", 3, 0, 1)
            + text("k")
            + struct.pack("<I", 9)
            + struct.pack("<IQ", 9, 1) * 50,
            "not-inspectable",
            "more words",
        ),
    ],
)
def test_a_gguf_file_that_is_wrong(tmp_path: Path, data: bytes, kind: str, said: str) -> None:
    (tmp_path / "model.gguf").write_bytes(data)
    found, _ = heard(tmp_path)
    assert found.problems[0].kind == kind, found.problems
    assert said in found.problems[0].text


def test_any_byte_of_a_gguf_file_may_be_wrong(tmp_path: Path) -> None:
    from doctor.checkpoint.formats.gguf import read_gguf

    good = gguf(model_of_gguf())
    path = tmp_path / "model.gguf"
    for place in range(len(good) - 100):
        for byte in (0, 255):
            path.write_bytes(good[:place] + bytes([byte]) + good[place + 1 :])
            with contextlib.ExitStack() as files:
                source = files.enter_context(LocalFolder(tmp_path).open("model.gguf"))
                read_gguf(source, "model.gguf")
