"""What two processes save with torch.distributed.checkpoint; each imports it by its name."""

from __future__ import annotations

from typing import Any


def save_as_rank(rank: int, port: int, folder: str) -> None:
    """One of two processes that save a divided model together."""
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard as Split
    from torch.distributed.tensor import distribute_tensor

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    whole = divided()
    split = {
        name: distribute_tensor(tensor, mesh, [Split(1 if name == "columns" else 0)])
        for name, tensor in whole.items()
    }
    dcp.save(split, checkpoint_id=folder)
    dist.destroy_process_group()


def divided() -> dict[str, Any]:
    """The whole model."""
    import torch

    return {
        "rows": torch.arange(28.0).reshape(7, 4),
        "columns": torch.arange(24.0).reshape(4, 6),
        "norm.weight": torch.ones(5),
        "other_norm.weight": torch.cat([torch.ones(4), torch.tensor([1.5])]),
    }
