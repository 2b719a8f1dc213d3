"""What is in a batch besides tokens: classes, empty and constant samples, equal ones, values."""

from __future__ import annotations

import collections
import functools
import hashlib
import math
import re
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import label_maps
from .documents import Tokens, host, is_constant
from .views import LABELS

MOST_ROWS = 5
STRETCH, LEAST_STRETCHES = 4096, 2
"""Values of 8 bytes that are summed up, and stretches from which on this is faster."""
MOST_CLASSES = 20
VOID, YOLO = 255, 6
"""The class that is ignored, and the columns of a table of boxes: row, class, box."""
SIMPLE_SAMPLERS = (
    "BatchSampler",
    "RandomSampler",
    "SequentialSampler",
    "DistributedSampler",
    "NoneType",
    "_InfiniteConstantSampler",
    "SeedableRandomSampler",
    "BatchSamplerShard",
)
NUMBER_OF_SAMPLE = re.compile(r"(.*_)?(id|idx|index)")
"""Names of a sample's number: it differs where the samples are the same."""


OPINIONS = ("desirable", "is_desirable", "thumbs_up", "is_good", "liked", "preferred")
"""Names of what a user thought of an answer."""


class Mixing:
    """Counts over the batches of a loader; `record` has them."""

    def __init__(self) -> None:
        self.show = False
        self.batches: List[List[int]] = []
        """The classes of each batch."""
        self.named = False
        self.class_is_trained: Optional[bool] = None
        self.samples = self.empty = self.constant = self.bare = 0
        self.rows: List[int] = []
        self.seen: Dict[bytes, int] = {}
        self.kinds: Set[Foreign] = set()
        """Classes of the objects that batches were, with their keys."""

    def add(self, batch: Foreign, tokens: Optional[Tokens], first_row: int) -> None:
        self.kinds.add(kind_of(batch))
        samples = samples_of(batch, tokens)
        if not samples:
            return
        self.add_classes(batch, len(samples))
        bare = observing.attempt(lambda: empty_targets(batch, len(samples)), set())
        for number, each in enumerate(samples):
            self.add_sample(each, first_row + number, number in bare)

    def add_classes(self, batch: Foreign, rows: int) -> None:
        """The classes of a batch of so many rows, where it has them."""
        classes = classes_of(batch, rows)
        if classes is not None:
            self.batches.append(classes)
            self.named = containers.is_mapping(batch)

    def add_sample(
        self, sample: Dict[str, torch.Tensor], row: int, has_no_object: bool = False
    ) -> None:
        self.samples += 1
        judged = [each for name, each in sample.items() if tells_constant(name, each)]
        empty = not any(each.numel() for each in sample.values())
        constant = bool(judged) and all(map(is_constant, judged))
        self.empty += empty
        self.constant += constant
        self.bare += constant and has_no_object
        if (empty or (constant and not has_no_object)) and len(self.rows) < MOST_ROWS:
            self.rows.append(row)
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

    def counts(self) -> Dict[str, int]:
        """The most frequent classes, where content is shown."""
        counted = collections.Counter(each for batch in self.batches for each in batch)
        return {str(each): n for each, n in counted.most_common(MOST_CLASSES if self.show else 0)}

    def record(self, own_order: bool) -> Dict[str, Any]:
        single, drawn = single_class(self.batches)
        classes = {each for batch in self.batches for each in batch}
        return {
            "type": "Mixing",
            "samples": self.samples,
            "distinct": len(self.seen),
            "empty": self.empty,
            "constant": self.constant,
            "bare": self.bare,
            "rows": self.rows,
            "batches": len(self.batches),
            "classes": len(classes),
            "counts": self.counts(),
            "named": self.named,
            "class_is_trained": self.class_is_trained,
            "single": single,
            "runs": runs(self.batches),
            "drawn": drawn,
            "own_order": own_order,
            "kinds": len(self.kinds),
        }


def empty_targets(batch: Foreign, rows: int) -> Set[int]:
    """Rows whose map has one class, or which have no box: in a list of targets, or in a table that
    begins with the number of the row, as YOLO has it."""
    maps = label_maps.map_of(batch)
    if maps is not None and len(maps) == rows:
        return {n for n, each in enumerate(maps) if len({*each.reshape(-1).tolist()} - {VOID}) < 2}
    if containers.is_mapping(batch):
        targets = batch.get("labels", batch.get("targets"))
        numbers = batch.get("batch_idx")
    else:
        targets = batch[-1] if isinstance(batch, (list, tuple)) and len(batch) > 1 else None
        table = targets if isinstance(targets, torch.Tensor) and targets.dim() == 2 else None
        numbers = table[:, 0] if table is not None and table.shape[1] == YOLO else None
    if isinstance(targets, (list, tuple)) and len(targets) == rows:
        boxes = [each.get("boxes") if containers.is_mapping(each) else None for each in targets]
        return {n for n, each in enumerate(boxes) if each is not None and not len(each)}
    if numbers is None or bool((numbers != numbers.round()).any()):
        return set()
    return set(range(rows)) - {int(each) for each in numbers}


def key_of(sample: Dict[str, torch.Tensor]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for each in sample.values():
        digest.update(observing.attempt(functools.partial(bytes_of, each), b""))
    return digest.digest()


def bytes_of(value: torch.Tensor) -> bytes:
    """Of all its values; of many, sums of stretches by random weights, which is faster than to
    digest them. numpy has no bfloat16."""
    plain = value.reshape(-1).contiguous().view(torch.uint8)
    whole = len(plain) // (8 * STRETCH)
    if whole < LEAST_STRETCHES:
        return bytes(plain.numpy().tobytes())
    words = plain[: whole * 8 * STRETCH].view(torch.int64).reshape(whole, STRETCH)
    sums = torch.cat([(words * each).sum(1) for each in weights()])
    rest = plain[whole * 8 * STRETCH :]
    return bytes(sums.numpy().tobytes()) + bytes(rest.numpy().tobytes())


@functools.lru_cache(maxsize=1)
def weights() -> torch.Tensor:
    """Odd numbers of 64 bits: stretches that differ have two equal sums by no chance."""
    generator = torch.Generator().manual_seed(5)
    return torch.randint(-(2**62), 2**62, (2, STRETCH), generator=generator) * 2 + 1


def single_class(batches: List[List[int]]) -> Tuple[int, float]:
    """Batches of one class, and the mean number of them if the samples were permuted."""
    several = [each for each in batches if len(each) > 1]
    counts = collections.Counter(one for each in several for one in each)
    samples = sum(counts.values())
    expected = 0.0
    for size in map(len, several):
        for count in counts.values():
            expected += math.prod(max(0, count - i) / (samples - i) for i in range(size))
    return sum(len(set(each)) == 1 for each in several), expected


def runs(batches: List[List[int]]) -> int:
    """Stretches of samples of one class, in the order of the batches."""
    each = [one for batch in batches for one in batch]
    return sum(n == 0 or each[n - 1] != one for n, one in enumerate(each))


def has_own_order(samplers: Iterable[Foreign]) -> bool:
    """Whether batches are chosen by a sampler that is none of torch's simple ones."""
    return any(type(each).__name__ not in SIMPLE_SAMPLERS for each in samplers)


def classes_of(batch: Foreign, rows: int) -> Optional[List[int]]:
    """One class for each row; None if the batch has none."""
    value: Foreign = None
    if containers.is_mapping(batch):
        value = next((batch[name] for name in LABELS if name in batch), None)
        opinion = next((batch[name] for name in OPINIONS if name in batch), None)
        value = value if opinion is None else opinion
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


def samples_of(batch: Foreign, tokens: Optional[Tokens]) -> List[Dict[str, torch.Tensor]]:
    """The inputs of each row by name, text without padding; a tensor of another number of rows
    belongs to all of them."""
    inputs = inputs_of(batch) if tokens is None else inputs_with(tokens)
    rows = next((len(each) for name, each in inputs.items() if not is_mask(name)), 0)
    samples = [
        {name: each[row] if len(each) == rows else each for name, each in inputs.items()}
        for row in range(rows)
    ]
    if tokens is not None and tokens.mask is not None:
        for sample, mask in zip(samples, tokens.mask):
            sample["ids"] = sample["ids"][mask != 0]
    return samples


def inputs_with(tokens: Tokens) -> Dict[str, torch.Tensor]:
    """The tokens, and what is no text, as images."""
    others = tokens.others.items()
    floating = {n: each for n, each in others if each.is_floating_point() and not is_mask(n)}
    return {"ids": tokens.ids, **{n: each for n, each in floating.items() if each.dim()}}


def inputs_of(batch: Foreign) -> Dict[str, torch.Tensor]:
    """The tensors of a batch that are neither labels nor the numbers of its samples."""
    named = {name: host(each) for name, each in containers.tensors(batch).items() if each.dim()}
    if not isinstance(batch, (list, tuple)):
        return {name: each for name, each in named.items() if is_input(name)}
    label = "[%d]" % (len(batch) - 1)
    before = {name: each for name, each in named.items() if not name.startswith(label)}
    return before or named


def is_input(name: str) -> bool:
    top = re.split(r"[.\[]", name)[0]
    return top not in LABELS and not NUMBER_OF_SAMPLE.fullmatch(top)


def is_mask(name: str) -> bool:
    return "mask" in name.lower()


def tells_constant(name: str, value: torch.Tensor) -> bool:
    return not is_mask(name) and value.dtype != torch.bool and value.numel() > 3


def kind_of(batch: Foreign) -> str:
    if containers.is_mapping(batch):
        return "%s %s" % (type(batch).__name__, sorted(map(str, batch)))
    size = len(batch) if isinstance(batch, (list, tuple)) else 0
    return "%s %d" % (type(batch).__name__, size)
