"""Parameters that FSDP2 has sharded: each rank compares its own part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import doctor.guard
from doctor.collect.guard_records import read_records
from doctor.facts.guard import Guarded

pytestmark = pytest.mark.slow


@pytest.fixture
def two_ranks() -> Iterator[Any]:
    """A mesh of two ranks, of which only this one exists; its collectives do nothing."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()


def test_sharded_vectors_are_compared(tmp_path: Path, two_ranks: Any) -> None:
    import torch
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4))
    fully_shard(model, mesh=two_ranks)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with doctor.guard.Guard(out=str(tmp_path)):
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).pow(2).mean().backward()
            optimizer.step()
    guarded = read_records(tmp_path)
    assert isinstance(guarded, Guarded)
    counts = guarded.processes[0].counts
    assert counts.effective == 20
    assert counts.vectors_moved == counts.vectors == 4


def test_a_snapshot_after_an_evaluation_has_shards(two_ranks: Any) -> None:
    """The outermost module keeps its weights whole after a forward pass without gradients."""
    import torch
    from torch.distributed.fsdp import fully_shard

    from doctor.guard.rehearsal.state import snapshot

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
    fully_shard(model, mesh=two_ranks)
    _trains = torch.optim.SGD(model.parameters(), 0.1)
    before = snapshot(torch)["weights"]["0.weight"]
    with torch.no_grad():
        model(torch.randn(4, 8))
    assert model[0].weight.shape == (8, 8)
    assert not hasattr(model[0].weight, "device_mesh")
    assert snapshot(torch)["weights"]["0.weight"] == before
    assert before[1] == [4, 8]
