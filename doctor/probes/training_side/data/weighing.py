"""Weights of classes and of rows against the counts of the classes: of a loss, and of a sampler."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import rows
from .documents import host
from .relations import relation
from .targets import Opened, Source, size
from .two_splits import held_classes, unwrapped
from .views import LABELS

MOST_ROWS = 20_000
LEAST, TIMES, RARE = 10, 1.5, 3
"""Rows of a class, the ratio of two counts, or of two weights, that tells a difference, and that of
two counts beside a weight of positives. Our own numbers."""


def of_target(opened: Opened, source: Source) -> List[Dict[str, Any]]:
    """Records of weights that are the larger, the more frequent their class is."""
    classes = classes_of(source)
    if classes is None:
        return []
    counts = torch.bincount(classes) if int(classes.min()) >= 0 else torch.zeros(0)
    found = of_sampler(source, classes, counts)
    for weight in weights_of(opened, source):
        if len(weight) == len(counts) and inverted(weight, counts):
            found.append(relation("weights inverted", 1, 1, ("the loss",), (),
                                  ends(weight, counts)))  # fmt: skip
    positive = positive_weight(opened)
    if positive is not None and len(counts) == 2 and min(counts.tolist()) >= LEAST:
        zero, one = counts.tolist()
        rare = zero >= RARE * one and positive < 1 / TIMES
        if rare or (one >= RARE * zero and positive > TIMES):
            found.append(relation("positive weight inverted", 1, 1, (), (), (positive, one, zero)))
    return found


def of_sampler(source: Source, classes: torch.Tensor, counts: torch.Tensor) -> List[Dict[str, Any]]:
    sampler = observing.attribute(source.items, "sampler")
    value = observing.attribute(sampler, "weights")
    if not isinstance(value, torch.Tensor) or len(value) != len(classes) or not len(counts):
        return []
    weights = host(value).double()
    groups = [weights[classes == n] for n in range(len(counts)) if int(counts[n]) >= LEAST]
    distinct = torch.unique(weights)
    if len(groups) < 2:
        return []
    mixed = [len(torch.unique(each)) > 1 for each in groups]
    if len(distinct) <= len(counts) and all(mixed) and len(distinct) > 1:
        return [relation("weights of other rows", 1, 1, (), (), (len(distinct), len(groups)))]
    if any(mixed):
        return []
    per_class = torch.tensor([float(weights[classes == n][0]) if int(counts[n]) else 0.0
                              for n in range(len(counts))])  # fmt: skip
    if inverted(per_class, counts):
        return [relation("weights inverted", 1, 1, ("the sampler",), (), ends(per_class, counts))]
    return []


def inverted(weight: torch.Tensor, counts: torch.Tensor) -> bool:
    """Whether each more frequent class has the larger weight, by far at the ends."""
    kept = [(int(c), float(w)) for w, c in zip(weight, counts) if int(c) >= LEAST]
    kept.sort()
    if len(kept) < 2 or kept[-1][0] < TIMES * kept[0][0] or kept[-1][1] < TIMES * kept[0][1]:
        return False
    steps = ((kept[n], kept[n + 1]) for n in range(len(kept) - 1))
    return all(a[1] <= b[1] * 1.001 for a, b in steps if b[0] > a[0])


def ends(weight: torch.Tensor, counts: torch.Tensor) -> Tuple[float, ...]:
    """Rows and weight of the most frequent class, and of the rarest one."""
    kept = sorted((int(c), float(w)) for w, c in zip(weight, counts) if int(c) >= LEAST)
    return (*kept[-1], *kept[0])


def classes_of(source: Source) -> Optional[torch.Tensor]:
    """The class of each row of the dataset, in its order; None if they are not known."""
    dataset, chosen = unwrapped(rows.dataset_of(source))
    count = size(dataset)
    found = held_classes(dataset, ("targets", "labels", "y", "label"))
    if found is None:
        found = read_classes(dataset, count or 0)
    made = observing.attempt(lambda: torch.as_tensor(found), None)
    if made is not None and made.dim() == 2 and made.shape[1] == 1:
        made = made[:, 0]
    if made is None or made.dim() != 1 or len(made) != count:
        return None
    if made.is_floating_point() and not bool((made == made.round()).all()):
        return None
    made = host(made).long()
    return made if chosen is None else made[chosen]


def read_classes(dataset: Foreign, count: int) -> Foreign:
    """The same from the rows."""
    if not count or count > MOST_ROWS or not observing.has(dataset, "__getitem__"):
        return None
    found = []
    for number in range(count):
        row = dataset[number]
        if containers.is_mapping(row):
            value = next((row[name] for name in LABELS if name in row), None)
        else:
            value = row[-1] if isinstance(row, (tuple, list)) and len(row) == 2 else None
        plain = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
        if isinstance(plain, str) and plain.isdecimal() and len(plain) < 6:
            plain = int(plain)  # of a table
        if not isinstance(plain, (int, float)):
            return None
        found.append(plain)
    return found


def losses_of(opened: Opened) -> List[torch.nn.Module]:
    """The losses that the target holds: its own, and those of the model."""
    found = [opened.criterion] if isinstance(opened.criterion, torch.nn.Module) else []
    if opened.module is not None:
        found += [e for e in opened.module.modules() if type(e).__name__.endswith("Loss")]
    return found


def weights_of(opened: Opened, source: Source) -> List[torch.Tensor]:
    each = [observing.attribute(loss, "weight") for loss in losses_of(opened)]
    holders = (opened.module, unwrapped(rows.dataset_of(source))[0])
    each += [observing.attribute(one, "class_weights") for one in holders]
    return [host(e).double() for e in each if isinstance(e, torch.Tensor) and e.dim() == 1]


def positive_weight(opened: Opened) -> Optional[float]:
    for loss in losses_of(opened):
        value = observing.attribute(loss, "pos_weight")
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            return float(value)
    return None
