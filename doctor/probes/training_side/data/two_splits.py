"""Two splits against each other: the scale of their values, their classes, windows
of one series that lie in both, and random numbers in the rows of eval."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import row_contents, rows
from .documents import host
from .given import label_name
from .inputs import image_of
from .places import TIME
from .relations import relation
from .targets import Source, as_batch, size
from .views import LABELS

MOST_BATCHES = 16
LEAST = 16
"""Rows of a split whose values are compared."""
LEAST_OF_ONE, CHANCE = 32, 1e-3
"""Rows of eval that are of one class, and how often chance makes them so. Our own numbers."""
FEW_CLASSES = 10
"""Values of which most are of one row, so that they are no classes. Our own number."""
UNLABELLED = "-1"
"""The class of rows whose label is kept back, as in test splits of benchmarks."""
CONSTANT = 1e-6
"""Share of a spread that is rounding: sound of 16 bit and of -1 to 1 are 3e-5 apart. Our own
number."""
FACTOR = 10.0
"""Between the spreads, or the means in spreads, of two splits. Our own number."""
STATISTIC = re.compile(
    r"(.*_)?(mean|avg|average|std|stdev|stddev|var|variance|mu|sigma|loc|scale|scales|offset|shift|"
    r"min|max|median|iqr|norm|raw|original|unscaled)(_.*)?"
)
"""Names of what a row was scaled by, and of what it was before: they are not inputs."""
DEPTH, READINGS = 4, 4
WINDOWS, EVAL_WINDOWS, MOST_STEPS = 4096, 256, 400_000
RUN, COVERED, PLACES = 3, 0.9, 4
"""Windows of each split and steps of all of them that are read; values in a row that tell a place
of a series, the share of a window's that train has, and the places of one run that are kept."""

Values = Dict[str, List[torch.Tensor]]


def of_batches(train: List[Foreign], other: List[Foreign]) -> List[Dict[str, Any]]:
    """Records on the values of the inputs that were delivered."""
    ours, theirs, targets = values_of(train), values_of(other), target_names(train)
    found = []
    for name in ours:
        one, two = ours[name], theirs.get(name, [])
        if min(sum(map(len, one)), sum(map(len, two))) < LEAST:
            continue
        record = scale(name, one, two)
        if record is not None and name in targets and in_original_units(one, two):
            record["kind"] = "target scale differs"
        found += [record] if record is not None else []
    return found


def target_names(batches: List[Foreign]) -> Set[Optional[str]]:
    return {*LABELS, *(label_name(each, containers.tensors(each)) for each in batches[:1])}


def in_original_units(ours: List[torch.Tensor], theirs: List[torch.Tensor]) -> bool:
    """Whether train has the smaller numbers: a metric may turn the scaling of train around."""
    one, two = (torch.cat([each.reshape(-1) for each in parts]) for parts in (ours, theirs))
    return bool(two[two.isfinite()].std() > one[one.isfinite()].std())


def values_of(batches: List[Foreign]) -> Values:
    """The inputs that are measured, as images and features, by name."""
    found: Values = {}
    for batch in batches[:MOST_BATCHES]:
        named = containers.tensors(batch)
        label = label_name(batch, named)
        image = image_of(batch)
        for name, each in named.items():
            is_image = image is not None and name == image[0]
            target = name in LABELS or name == label
            if "mask" in name or (each.dim() < 2 and not target):
                continue
            last = name.split(".")[-1].lower()
            if TIME.fullmatch(last) or STATISTIC.fullmatch(last):
                continue  # an eval that is later is as it should be
            if each.is_floating_point() or (is_image and not target):
                found.setdefault(name, []).append(host(each).float())
    return found


def scale(
    name: str, ours: List[torch.Tensor], theirs: List[torch.Tensor]
) -> Optional[Dict[str, Any]]:
    """Ranges that one preparation does not give: a spread that is ten times the other, images with
    and without values below 0, and columns of which half are on another scale."""
    one, two = (torch.cat([e.reshape(-1)[:1_000_000] for e in parts]) for parts in (ours, theirs))
    one, two = one[one.isfinite()], two[two.isfinite()]
    if not len(one) or not len(two):
        return None
    ends = tuple(float(each) for each in (one.min(), one.max(), two.min(), two.max()))
    image = ours[0].dim() == 4
    signs = image and (ends[0] >= 0) != (ends[2] >= 0) and min(ends[0], ends[2]) < -0.9
    if signs or apart(one, two) or (ours[0].dim() == 2 and columns_apart(ours, theirs)):
        return relation("scale differs", 1, 1, (name,), (), ends)
    return None


def apart(one: torch.Tensor, two: torch.Tensor) -> bool:
    spreads = [float(each.std()) for each in (one, two)]
    if not min(spreads) > CONSTANT * max(spreads):
        return False  # the first rows of a series may be at rest
    difference = abs(float(one.mean()) - float(two.mean()))
    return max(spreads) > FACTOR * min(spreads) or difference > FACTOR * max(spreads)


def columns_apart(ours: List[torch.Tensor], theirs: List[torch.Tensor]) -> bool:
    """Whether half of the columns, and at least two, are on another scale in the other split."""
    if len({each.shape[1] for each in (*ours, *theirs)}) > 1:
        return False
    one, two = torch.cat(ours), torch.cat(theirs)
    moving = ((one.std(0) > 0) & (two.std(0) > 0)).nonzero()[:, 0].tolist()
    count = sum(apart(one[:, n], two[:, n]) for n in moving)
    return count >= 2 and 2 * count >= len(moving)


def of_classes(train: Counter[str], other: Counter[str]) -> Optional[Dict[str, Any]]:
    """Rows of eval whose class no row of train has; both were read to their end."""
    known, count = set(other) <= set(train), sum(other.values())
    if known and len(other) == 1 < len(train) and count >= LEAST_OF_ONE:
        share = train[next(iter(other))] / sum(train.values())
        if share**count < CHANCE:
            return relation("eval of one class", 1, 1, (), (), (count, len(train)))
    if set(other) == {UNLABELLED} and count >= LEAST and len(train) > 1 and UNLABELLED not in train:
        return relation("eval unlabelled", count, count)
    absent = [each for each in other if each not in train]
    if not train or not absent or hardly_return(train):
        return None
    part = sum(other[each] for each in absent)
    return relation("class in eval alone", part, sum(other.values()), (), (),
                    (len(absent), len(other), len(train)))  # fmt: skip


def hardly_return(classes: Counter[str]) -> bool:
    """Whether most values are of one row, as numbers to be reached and free answers: no classes."""
    return 2 * sum(count == 1 for count in classes.values()) > len(classes) >= FEW_CLASSES


def stated_classes(source: Source) -> Counter[str]:
    """The classes of the rows as the dataset lists them: `targets`, `labels`, the last tensor."""
    dataset, chosen = unwrapped(rows.dataset_of(source))
    found = held_classes(dataset, ("targets", "labels", "y"))
    if observing.has(found, "tolist"):
        whole = isinstance(found, torch.Tensor) and found.is_floating_point()
        found = [] if whole or found is None else observing.attempt(found.tolist, [])
    if not isinstance(found, list) or len(found) != size(dataset):
        return Counter()
    each = found if chosen is None else [found[n] for n in chosen]
    plain = all(isinstance(one, (int, str)) for one in each)
    return Counter(map(str, each)) if plain else Counter()


def held_classes(dataset: Foreign, names: Tuple[str, ...]) -> Foreign:
    """The last tensor of a TensorDataset, or the first of these attributes that is there."""
    tensors = observing.attribute(dataset, "tensors")
    found = tensors[-1] if isinstance(tensors, tuple) and len(tensors) > 1 else None
    for name in names:
        found = observing.attribute(dataset, name) if found is None else found
    return found


def unwrapped(dataset: Foreign) -> Tuple[Foreign, Optional[List[int]]]:
    """The dataset below torch's subsets, and the rows that they choose of it."""
    chosen: Optional[List[int]] = None
    for _ in range(DEPTH):
        if type(dataset).__name__ != "Subset":
            break
        own = [int(each) for each in dataset.indices]
        chosen = own if chosen is None else [own[n] for n in chosen]
        dataset = dataset.dataset
    return dataset, chosen


def shared_indices(train: Source, other: Source) -> Optional[Dict[str, Any]]:
    """The record Overlap of two subsets of one dataset; None of anything else."""
    (ours, one), (theirs, two) = (unwrapped(rows.dataset_of(each)) for each in (train, other))
    if ours is not theirs or one is None or two is None:
        return None
    at = {number: row for row, number in enumerate(one)}
    pairs = [[at[number], row] for row, number in enumerate(two) if number in at]
    return {
        "type": "Overlap", "train": len(one), "rows": len(two), "telling": len(two),
        "shared": len(pairs), "pairs": pairs[:3], "drawn_twice": True,
    }  # fmt: skip


def overlap_of(train: Source, other: Source, of_rows: Dict[str, Any]) -> Dict[str, Any]:
    """The record Overlap by the numbers of the rows, or by their content where that finds more."""
    of_numbers = shared_indices(train, other)
    if of_numbers is None:
        return of_rows
    return of_rows if of_rows.get("shared", 0) > of_numbers["shared"] else {
        **of_numbers, "repeated": of_rows.get("repeated", 0)
    }  # fmt: skip


def random_eval(train: Source, other: Source) -> Optional[Dict[str, Any]]:
    """Where rows of eval differ when they are read again: whether they are images, and of the same
    object as train's."""
    dataset = rows.dataset_of(other)
    if not size(dataset) or not observing.has(dataset, "__getitem__"):
        return None
    read = [row_contents.row_of(dataset[0]) for _ in range(READINGS)]
    if len({None if each is None else each.content for each in read}) < 2:
        return None
    ours, theirs = (unwrapped(rows.dataset_of(each))[0] for each in (train, other))
    image = image_of(as_batch(dataset[0])) is not None
    return relation("eval random", 1, 1, (), (), (int(ours is theirs), int(image)))


def windows(train: Source, other: Source) -> Optional[Dict[str, Any]]:
    """Windows of eval whose values lie in windows of train, at other places: of one series."""
    places: Dict[bytes, Set[int]] = {}
    for window in series_of(train, WINDOWS):
        for at, run in runs_of(window):
            known = places.setdefault(run, set())
            if len(known) < PLACES:
                known.add(at)
    whole, covered = 0, []
    for number, window in enumerate(series_of(other, EVAL_WINDOWS) if places else ()):
        moved = [places.get(run, set()) - {at} for at, run in runs_of(window)]
        whole += bool(moved)
        if moved and sum(map(bool, moved)) >= COVERED * len(moved):
            covered.append(number)
    return relation("windows shared", len(covered), whole, (), covered) if covered else None


def series_of(source: Source, most: int) -> Iterator[torch.Tensor]:
    """The first field of rows all over the split that is a window: steps, or steps x values,
    measured. As many as `most` and MOST_STEPS allow."""
    dataset, numbers = rows.spread(source, 1)
    first = window_of(dataset[0]) if numbers else None
    most = min(most, MOST_STEPS // len(first)) if first is not None else 0
    for index in rows.spread(source, most)[1]:
        found = window_of(dataset[index])
        if found is None:
            return
        yield found


def window_of(row: Foreign) -> Optional[torch.Tensor]:
    fields = containers.tensors(as_batch(row)).values()
    found = next((e[0] for e in fields if e.is_floating_point() and e.dim() in (2, 3)), None)
    return host(found) if found is not None and len(found) > RUN else None


def runs_of(window: torch.Tensor) -> Iterator[Tuple[int, bytes]]:
    """Each few steps that follow each other, with their place, where they differ."""
    steps = window.reshape(len(window), -1)
    differ = (steps[1:] != steps[:-1]).any(1) & (steps[1:] != steps[1:].round()).any(1)
    for at in range(len(steps) - RUN + 1):
        if bool(differ[at : at + RUN - 1].all()):
            yield at, steps[at : at + RUN].numpy().tobytes()
