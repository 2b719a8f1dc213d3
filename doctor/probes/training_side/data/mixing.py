"""What is in a batch besides tokens: classes, empty and constant samples, equal ones, values."""

from __future__ import annotations

import random
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from .documents import LABELS, Tokens, host
from .rows import is_constant

MOST_ROWS = 5
DRAWS = 200
"""Permutations that the order of the classes is compared with."""
VALUES = 4096


class Mixing:
    """Counts over the batches of a loader; `record` has them."""

    def __init__(self) -> None:
        self.batches: List[List[int]] = []
        """The classes of each batch."""
        self.named = False
        self.class_is_trained: Optional[bool] = None
        self.samples = self.empty = self.constant = 0
        self.rows: List[int] = []
        self.seen: Dict[bytes, int] = {}
        self.kinds = set()  # type: ignore[var-annotated]
        """Classes of the objects that batches were, with their keys."""

    def add(self, batch: Foreign, tokens: Optional[Tokens], first_row: int) -> None:
        self.kinds.add(kind_of(batch))
        inputs = tokens.ids if tokens is not None else input_of(batch)
        if inputs is None or not inputs.dim():
            return
        classes = classes_of(batch, len(inputs))
        if classes is not None:
            self.batches.append(classes)
            self.named = containers.is_mapping(batch)
        for number, each in enumerate(host(inputs)):
            self._add_sample(each, tokens, number, first_row)

    def _add_sample(
        self, sample: torch.Tensor, tokens: Optional[Tokens], number: int, first_row: int
    ) -> None:
        self.samples += 1
        if tokens is not None and tokens.mask is not None:
            sample = sample[tokens.mask[number] != 0]
        empty = not sample.numel()
        constant = not empty and sample.numel() > 3 and is_constant(sample)
        self.empty += empty
        self.constant += constant
        if (empty or constant) and len(self.rows) < MOST_ROWS:
            self.rows.append(first_row + number)
        key = key_of(sample)
        self.seen[key] = self.seen.get(key, 0) + 1

    def measure(
        self, module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign
    ) -> None:
        """Where all samples have one class: whether the loss changes with another one."""
        if len({each for classes in self.batches for each in classes}) == 1:
            self.class_is_trained = observing.attempt(
                lambda: reads_class(module, loss, batch), None
            )

    def record(self, own_order: bool) -> Dict[str, Any]:
        single, drawn = single_class(self.batches)
        classes = {each for batch in self.batches for each in batch}
        return {
            "type": "Mixing",
            "samples": self.samples,
            "distinct": len(self.seen),
            "empty": self.empty,
            "constant": self.constant,
            "rows": self.rows,
            "batches": len(self.batches),
            "classes": len(classes),
            "named": self.named,
            "class_is_trained": self.class_is_trained,
            "single": single,
            "drawn": drawn,
            "own_order": own_order,
            "kinds": len(self.kinds),
        }


def key_of(sample: torch.Tensor) -> bytes:
    flat = sample.reshape(-1)
    step = max(1, flat.numel() // VALUES)
    return observing.attempt(lambda: flat[::step].contiguous().numpy().tobytes(), b"")


def single_class(batches: List[List[int]]) -> Tuple[int, float]:
    """Batches of one class, and the mean number of them if the samples were permuted."""
    several = [each for each in batches if len(each) > 1]
    single = sum(len(set(each)) == 1 for each in several)
    if not single:
        return 0, 0.0
    draw = random.Random(5)  # noqa: S311 - a permutation test
    pool = [one for each in several for one in each]
    total = 0
    for _ in range(DRAWS):
        draw.shuffle(pool)
        start = 0
        for each in several:
            part = pool[start : start + len(each)]
            start += len(each)
            total += len(set(part)) == 1
    return single, total / DRAWS


def classes_of(batch: Foreign, rows: int) -> Optional[List[int]]:
    """One class for each row; None if the batch has none."""
    value: Foreign = None
    if containers.is_mapping(batch):
        value = next((batch[name] for name in LABELS if name in batch), None)
    elif isinstance(batch, (list, tuple)) and len(batch) > 1:
        value = batch[-1]
    if not isinstance(value, torch.Tensor) or value.is_floating_point():
        return None
    return [int(each) for each in host(value)] if tuple(value.shape) == (rows,) else None


def reads_class(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign
) -> Optional[bool]:
    """Whether the loss of a batch differs with another class, from the same random numbers."""
    losses = []
    for each in (batch, with_another_class(batch)):
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            losses.append(loss(module, each))
    return bool((losses[0] != losses[1]).any())


def with_another_class(batch: Foreign) -> Foreign:
    """The batch with class 0 in place of another one, or 1 in place of 0."""

    def other(classes: torch.Tensor) -> torch.Tensor:
        return torch.full_like(classes, int(not classes.reshape(-1)[0]))

    if containers.is_mapping(batch):
        name = next(name for name in LABELS if name in batch)
        return {**batch, name: other(batch[name])}
    return type(batch)([*batch[:-1], other(batch[-1])])


def input_of(batch: Foreign) -> Optional[torch.Tensor]:
    """The first tensor of a batch that is not its labels."""
    tensors = containers.tensors(batch)
    named = [each for name, each in tensors.items() if name not in LABELS and each.dim()]
    return named[0] if named else None


def kind_of(batch: Foreign) -> str:
    if containers.is_mapping(batch):
        return "%s %s" % (type(batch).__name__, sorted(map(str, batch)))
    size = len(batch) if isinstance(batch, (list, tuple)) else 0
    return "%s %d" % (type(batch).__name__, size)
