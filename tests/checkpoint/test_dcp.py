"""torch.distributed.checkpoint, as torch, torchtitan and Accelerate save with it."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any

import dcp_ranks
import preloaded
import pytest
from dcp_ranks import divided
from saved_layouts import (
    llama,
    same,
    saved,
    scan_tensors,
    state,
    states_of,
    stepped,
)

from doctor.checkpoint.records import Checkpoint, Optimizer

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("quietly")


def test_a_distributed_checkpoint(tmp_path: Path) -> None:
    model = llama(torch.bfloat16)
    optimizer = stepped(model)
    weights, kept = states_of(model, optimizer)
    saved(tmp_path, {"model": weights, "optimizer": kept, "train_state": {"step": 3}})
    checkpoint, recorder = scan_tensors(tmp_path)
    assert (checkpoint.layout, checkpoint.problems) == ("torch.distributed.checkpoint", ())
    assert checkpoint.training.steps == 3
    assert not checkpoint.loading.refused
    assert "torch.distributed.checkpoint.metadata.Metadata" in checkpoint.loading.imports
    same(tmp_path, recorder.tensors, dict(weights))
    assert {norm.value for norm in checkpoint.contents.norms} == {"ones"}

    entries = {entry.key: entry for entry in state(tmp_path).entries}
    assert {*entries} == {*kept["state"]}
    for name, slots in kept["state"].items():
        assert entries[name].step == 3
        theirs = {slot: slots[slot] for slot in ("exp_avg", "exp_avg_sq")}
        same(tmp_path, entries[name].slots, theirs)
    groups = state(tmp_path).groups
    assert [group.lr for group in groups] == [1e-3]
    assert {*groups[0].keys} == {*weights}
    assert isinstance(checkpoint.training.optimizer, Optimizer)
    assert checkpoint.training.optimizer.norms is not None
    assert (
        checkpoint.training.optimizer.norms.matched_by,
        checkpoint.training.optimizer.norms.nonzero_moments,
    ) == (
        "names",
        5,
    )


def test_an_application_with_a_state_of_its_own(tmp_path: Path) -> None:
    """A Stateful under "app", as torch's tutorial saves it."""
    model = llama()
    weights, kept = states_of(model, stepped(model))
    saved(tmp_path, {"app": {"model": weights, "optim": kept, "step": 3}})
    checkpoint, _ = scan_tensors(tmp_path)
    assert isinstance(checkpoint.training.optimizer, Optimizer)
    assert checkpoint.training.optimizer.entries == len(kept["state"])
    assert checkpoint.contents.tensors == len(weights)


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
    checkpoint, recorder = scan_tensors(folder)
    assert checkpoint.layout == "torchtitan checkpoint (torch.distributed.checkpoint)"
    same(folder, recorder.tensors, dict(weights))
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
    checkpoint, recorder = scan_tensors(tmp_path)
    said = "FSDP of Accelerate (torch.distributed.checkpoint)"
    assert (checkpoint.layout, checkpoint.problems) == (f"HF Trainer checkpoint, {said}", ())
    same(tmp_path, recorder.tensors, dict(weights))
    assert isinstance(checkpoint.training.optimizer, Optimizer)
    assert checkpoint.training.optimizer.entries == len(weights)
    assert {shard.file for shard in recorder.shards} == {
        "pytorch_model_fsdp_0/.metadata",
        "pytorch_model_fsdp_0/__0_0.distcp",
    }
    torch.save(dict(weights), tmp_path / "pytorch_model_fsdp.bin")
    alone = tmp_path / "full"
    alone.mkdir()
    (tmp_path / "pytorch_model_fsdp.bin").rename(alone / "pytorch_model_fsdp.bin")
    checkpoint, recorder = scan_tensors(alone)
    assert checkpoint.layout == "one PyTorch file" or "FSDP" in checkpoint.layout
    same(alone, recorder.tensors, dict(weights))


@pytest.mark.slow
def test_tensors_of_two_processes(tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    support = Path(dcp_ranks.__file__).parent
    code = (
        f"import sys; sys.path.append({str(support)!r}); import dcp_ranks; dcp_ranks.save_as_rank"
    )
    ranks = [
        subprocess.Popen([preloaded.python(), "-c", f"{code}({rank}, {port}, {str(tmp_path)!r})"])
        for rank in range(2)
    ]
    assert [rank.wait(240) for rank in ranks] == [0, 0]
    checkpoint, recorder = scan_tensors(tmp_path)
    assert checkpoint.problems == ()
    same(tmp_path, recorder.tensors, divided())
    assert len(recorder.tensors["rows"].parts) == 2
    assert len(recorder.tensors["columns"].parts) == 8
    assert {norm.name: norm.value for norm in checkpoint.contents.norms} == {
        "norm.weight": "ones",
        "other_norm.weight": "other",
    }
    assert checkpoint.contents.dtypes == {"F32": 4 * (28 + 24 + 10)}

    (tmp_path / "__1_0.distcp").rename(tmp_path / "away")
    checkpoint, _ = scan_tensors(tmp_path)
    kinds = [problem.kind for problem in checkpoint.problems]
    assert kinds[0] == "missing"
    assert "__1_0.distcp" in checkpoint.problems[0].text
    assert "damaged" in kinds
    (tmp_path / "__1_0.distcp").write_bytes((tmp_path / "away").read_bytes()[:-100])
    checkpoint, _ = scan_tensors(tmp_path)
    assert "cut short" in checkpoint.problems[0].text


def test_rates_that_are_tensors(tmp_path: Path) -> None:
    """Capturable and compiled optimizers keep their learning rate in a tensor."""
    model = llama(torch.bfloat16)
    weights, kept = states_of(model, stepped(model))
    for group in kept["param_groups"]:
        group["lr"] = torch.tensor(0.0078125)
        group["weight_decay"] = torch.tensor(0.5, dtype=torch.float64)
    saved(tmp_path, {"model": weights, "optimizer": kept})
    checkpoint, recorder = scan_tensors(tmp_path)
    same(tmp_path, recorder.tensors, dict(weights))  # the rates are no weights
    assert checkpoint.problems == ()
    groups = state(tmp_path).groups
    assert {(group.lr, group.weight_decay) for group in groups} == {(0.0078125, 0.5)}


def test_the_export_for_hugging_face(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageWriter

    weights = {"a.weight": torch.randn(3, 4), "norm.weight": torch.ones(4)}
    writer = HuggingFaceStorageWriter(path=str(tmp_path), save_distributed=True)
    dcp.save(weights, storage_writer=writer)
    checkpoint, recorder = scan_tensors(tmp_path)
    assert "safetensors" in checkpoint.layout
    assert not [one for one in checkpoint.problems if one.kind in ("damaged", "twice")]
    same(tmp_path, recorder.tensors, weights)


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
        return scan_tensors(folder)[0]

    checkpoint = rewritten(relative_path="../../__0_0.distcp")
    assert (checkpoint.contents.tensors, checkpoint.problems) == (1, ())
    checkpoint = rewritten(offset=1 << 40)
    assert (checkpoint.contents.tensors, checkpoint.problems[0].kind) == (0, "damaged")
    checkpoint = rewritten(offset=-1)
    assert checkpoint.problems[0].kind == "damaged"
    checkpoint = rewritten(offset=0, transform_descriptors=["zstd"])
    assert checkpoint.not_inspectable
    assert "transforms" in checkpoint.problems[0].text
