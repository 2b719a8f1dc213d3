"""Generators that a dataset has itself, and what each worker draws from them."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from doctor.probes.training_side.data import seeds, targets  # noqa: E402

pytestmark = pytest.mark.slow


class Jitter:
    """A transform with a generator of its own."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __call__(self) -> Any:
        if isinstance(self.generator, torch.Generator):
            return torch.rand(20, generator=self.generator)
        return torch.tensor([self.generator.random() for _ in range(20)])


class Own(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(
        self, make: Any, late: bool = False, by_row: bool = False, tossed: bool = False
    ) -> None:
        self.make, self.by_row, self.tossed = make, by_row, tossed
        self.transforms = [] if late else [Jitter(make())]

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        if self.by_row:
            return {"x": Jitter(np.random.default_rng(index))(), "y": index}
        if self.tossed:  # its own generator has made the split alone
            return {"x": torch.arange(20.0) * (1 + (random.random() < 0.5)), "y": index}
        if not self.transforms:
            self.transforms = [Jitter(self.make())]
        return {"x": self.transforms[0](), "y": index}


def numpy_of_torch() -> Any:
    return np.random.default_rng(torch.initial_seed() % 2**32)


def start(worker: int) -> None:
    info = torch.utils.data.get_worker_info()
    info.dataset.transforms[0].generator = numpy_of_torch()


@pytest.mark.parametrize(
    ("dataset", "begin", "equal"),
    [
        (Own(lambda: np.random.default_rng(0)), None, True),
        (Own(lambda: np.random.RandomState(0)), None, True),
        (Own(lambda: random.Random(0)), None, True),
        (Own(lambda: torch.Generator().manual_seed(0)), None, True),
        (Own(lambda: np.random.default_rng(0)), lambda worker: np.random.seed(worker), True),
        (Own(lambda: np.random.default_rng(0)), start, False),
        (Own(numpy_of_torch, late=True), None, None),
        (Own(lambda: np.random.default_rng(0), by_row=True), None, None),
        (Own(lambda: np.random.default_rng(0), tossed=True), None, None),
    ],
)
def test_workers_that_copy_a_generator(dataset: Any, begin: Any, equal: Any) -> None:
    loader = torch.utils.data.DataLoader(dataset, num_workers=2, worker_init_fn=begin)
    before = [each.generator for each in dataset.transforms]
    source = targets.source("train", loader)
    found = [seeds.of_workers(source) for _ in range(2)]
    assert found[0] == found[1]
    assert [each.generator for each in dataset.transforms] == before
    assert (found[0] and found[0]["equal_workers"]) == equal
    if equal:
        assert found[0]["copied"]
        workers = [batch["x"] for batch in loader][:2]
        assert torch.equal(*workers)
