"""The batch of the first alarm, again: for the factory of `doctor run --model`.

from doctor.guard import replay

def make():
    batch = replay.batch("doctor-guard", dataset, collate)
    return {"model": model, "batch": batch, ...}
"""

from __future__ import annotations

import base64
import json
import os
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional

from .batches import content_hash
from .foreign import Foreign
from .writer import say

Record = Dict[str, Any]


def records(directory: str, rank: int = 0) -> List[Record]:
    """The last batches before the first alarm of a rank, oldest first, as recorded.

    Each has `indices` (what the sampler drew), `tensors` (name -> shape, dtype, sha256) and
    `torch_rng`. Raises LookupError where there was no alarm.
    """
    names = [name for name in sorted(os.listdir(directory)) if name.startswith(f"rank{rank}-")]
    for name in names:
        with open(os.path.join(directory, name), encoding="utf-8") as lines:
            for line in lines:
                if line.startswith('{"kind": "batches"'):
                    batches: List[Record] = json.loads(line)["batches"]
                    return batches
    raise LookupError(f"{directory} has no batch of an alarm on rank {rank}")


def batch(
    directory: str,
    dataset: Foreign,
    collate: Optional[Callable[[List[Foreign]], Foreign]] = None,
    *,
    rank: int = 0,
    which: int = -1,
) -> Foreign:
    """The batch, from the dataset, and torch's CPU random state as it was before its step.

    `which` selects one of the last ten: -1 the last that was fetched; accelerate fetches one
    ahead, and an alarm names the steps before it that were not read. One line on stderr says where
    the content differs from the recorded one. Raises LookupError where there is no record, or none
    of the sampler's indices.
    """
    import torch

    record = records(directory, rank)[which]
    indices = record["indices"]
    if not isinstance(indices, list):
        raise LookupError(f"the record has no indices of a sampler: {indices}")
    if collate is None:
        from torch.utils.data import default_collate

        collate = default_collate
    result = collate([dataset[index] for index in indices])
    differing = _differing(torch, result, record["tensors"])
    if differing:
        say(f"the batch differs from the recorded one in: {', '.join(differing)}")
    state = base64.b64decode(record["torch_rng"])
    torch.set_rng_state(torch.tensor(list(state), dtype=torch.uint8))
    return result


def _differing(torch: ModuleType, result: Foreign, recorded: Dict[str, Record]) -> List[str]:
    """Names of tensors whose bytes are not those that were recorded."""
    from .batches import Batches

    tensors = dict(Batches(torch).tensors(result))
    return [
        name
        for name, about in recorded.items()
        if "sha256" in about
        and (name not in tensors or content_hash(torch, tensors[name]) != about["sha256"])
    ]
