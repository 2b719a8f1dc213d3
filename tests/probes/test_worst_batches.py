"""Which batches of a factory's loader a rehearsal tries."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROWS = [torch.ones(length) for length in (1, 9, 2, 8, 3, 7, 4)]


class Sized:
    """A dataset whose keys are pairs, and whose last row cannot be read."""

    def __getitem__(self, key: Any) -> Any:
        index, size = key
        if index == 3:
            raise ValueError("a broken row")
        return torch.ones(size)


@pytest.mark.parametrize(
    ("dataset", "options", "sizes"),
    [
        (ROWS, {"batch_size": 2}, {"longest": 2, "shortest": 2, "last": 1}),
        (ROWS, {"batch_size": 2, "drop_last": True}, {"longest": 2, "shortest": 2}),
        (ROWS, {"batch_sampler": [[0, 1, 2], [3, 4, 5]]}, {"longest": 3, "shortest": 3}),
        (Sized(), {"batch_sampler": [[(0, 4)], [(1, 2), (2, 2)]]},
         {"longest": 1, "shortest": 2, "last": 2}),
        (Sized(), {"batch_sampler": [[(3, 1)]]}, {}),
        (Sized(), {"batch_size": 2, "sampler": [(0, 5), (1, 6)]}, {"longest": 2, "shortest": 2}),
    ],
)  # fmt: skip
def test_the_batches_are_those_of_the_sampler(dataset: Any, options: Any, sizes: Any) -> None:
    from doctor.probes.training_side.rehearsed import batches

    loader = torch.utils.data.DataLoader(dataset, **options)
    plan = batches.plan_of(loader)
    assert {name: len(indices) for name, indices in plan.chosen.items()} == sizes
    assert ("untold" in plan.head) is (not sizes)


def test_a_last_batch_that_the_batch_sampler_drops_is_not_tried() -> None:
    from doctor.probes.training_side.rehearsed import batches

    data = torch.utils.data
    sampler = data.BatchSampler(data.SequentialSampler(ROWS), 2, drop_last=True)
    plan = batches.plan_of(data.DataLoader(ROWS, batch_sampler=sampler))
    assert set(plan.chosen) == {"longest", "shortest"}
    assert plan.head["of"] == 6
