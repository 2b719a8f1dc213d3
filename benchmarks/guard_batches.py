"""What looking at the first batches costs: python benchmarks/guard_batches.py.

Thread time per batch of tokens of 8 x 2,048 and of images of 256 x 3 x 224 x 224, 50 batches each,
and of a batch after them. The first run writes the bytecode of what is imported.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch  # noqa: TID253 - it is what is measured

import doctor.guard

BATCHES = 50


class Tokens(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        for _ in range(BATCHES):
            ids = torch.randint(0, 32_000, (8, 2048))
            yield {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}


class Images(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        images = torch.randn(256, 3, 224, 224)
        for _ in range(BATCHES):
            yield images, torch.arange(256) % 10


def seconds(data: Any) -> list[float]:
    """Thread seconds for each batch."""
    times: list[float] = []
    with tempfile.TemporaryDirectory() as out, doctor.guard.Guard(out=out) as guard:
        first = guard._session.watch.first_batches
        original = first.fetched

        def fetched(iterator: Any, batch: Any) -> None:
            began = time.thread_time()
            original(iterator, batch)
            times.append(time.thread_time() - began)

        first.fetched = fetched  # type: ignore[method-assign]
        weight = torch.nn.Parameter(torch.ones(64, 64))
        optimizer = torch.optim.SGD([weight], 1e-9)
        for _ in torch.utils.data.DataLoader(data, batch_size=None):
            optimizer.zero_grad()
            weight.pow(2).sum().backward()
            optimizer.step()
    return times


def main() -> None:
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f}; ms per batch that is looked at:")
    for name, data in (("tokens", Tokens()), ("images", Images())):
        each = sorted(1e3 * value for value in seconds(data))
        print(
            f"  {name:8} {len(each)} batches, median {statistics.median(each):.2f}, "
            f"9 of 10 below {each[int(0.9 * len(each))]:.2f}, peak {each[-1]:.2f}, "
            f"sum {sum(each):.1f}"
        )


if __name__ == "__main__":
    main()
