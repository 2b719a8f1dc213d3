"""What two splits have in common that they should not: groups as patients and recordings, copies
that were changed a little, and the numbers by which their columns were scaled."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple, Union

import torch

from ..foreign import Foreign, containers, observing
from . import row_contents, rows
from .documents import host
from .inputs import brightness, image_of
from .places import TIME
from .relations import relation
from .targets import Source, as_batch, size

MOST_ROWS, MOST_STEPS = 4096, 1_000_000
"""Rows of each split that are read here, from all over it, and steps of a series that it holds."""
GROUPS = re.compile(r"(?:patient|subject|person|participant|animal|case|slide|scene|video|"
                    r"recording|"
                    r"clip|sequence|session|volume|study)(?:_?(?:id|ids|idx|no|num|name|key|number))?",
                    re.IGNORECASE)  # fmt: skip
"""Names of what several rows come from, and new data do not."""
SEVERAL, LEAST_ROWS, LEAST_OF_GROUPS = 1.5, 32, 8
"""Rows of a group in train on average, below which a number is one of the row; rows of eval. Our
own numbers."""
WORDS, LEAST_WORDS = re.compile(r"[^\W_]+"), 6
SIDE, LEAST_IMAGES, MOST_IMAGES = 32, 16, 1024
SAME_DETAIL, BETWEEN_OTHERS = 0.95, 0.6
"""Correlation of the details of two images that are one photograph, and below which nearly all
pairs of different images of the data must be. Our own numbers."""
PARTS, MOST_PARTS = 4, 0.7
"""Parts of an image along a side, and the share of all that a copy has. Our own numbers."""
EXACT, LEAST_COLUMNS, MOSTLY = 1e-4, 2, 0.5
"""How far the mean of a scaled column may be from 0, columns that tell, and the share of the
measured ones that are scaled. Our own numbers."""


def of_splits(train: Source, other: Source) -> List[Dict[str, Any]]:
    ours, theirs = (list(read(each)) for each in (train, other))
    looks = (
        lambda: groups(ours, theirs),
        lambda: times(ours, theirs),
        lambda: texts(ours, theirs),
        lambda: images(ours, theirs),
        lambda: scaling((train, ours), (other, theirs)),
    )
    each = [observing.attempt(look, None) for look in looks]
    return [one for one in each if one is not None]


def read(source: Source) -> Iterator[Foreign]:
    """Rows from all over the split."""
    dataset = observing.attribute(source.items, "dataset") if source.kind == "loader" else None
    dataset = rows.dataset_of(source) if dataset is None else dataset
    if observing.has(dataset, "again"):
        for number, row in enumerate(dataset.again()):
            if number >= MOST_ROWS:
                return
            yield row
    else:
        yield from (dataset[number] for number in rows.numbers_in(dataset, MOST_ROWS))


def groups(ours: List[Foreign], theirs: List[Foreign]) -> Optional[Dict[str, Any]]:
    """Rows of eval whose patient, or the like, has rows in train."""
    first: Foreign = ours[0] if ours else None
    if not containers.is_mapping(first) or len(theirs) < LEAST_OF_GROUPS:
        return None
    for name in (each for each in first if GROUPS.fullmatch(str(each))):
        mine = [plain(row.get(name)) for row in ours]
        known = {each for each in mine if each is not None}
        if len(known) < 2 or len(mine) < SEVERAL * len(known):
            continue
        both = [n for n, row in enumerate(theirs) if plain(row.get(name)) in known]
        if both:
            return relation("group in both", len(both), len(theirs), (str(name),), both)
    return None


def times(ours: List[Foreign], theirs: List[Foreign]) -> Optional[Dict[str, Any]]:
    """Rows of eval that are earlier than nearly all rows of train."""
    first: Foreign = ours[0] if ours else None
    if not containers.is_mapping(first) or len(theirs) < LEAST_ROWS:
        return None
    for name in (each for each in first if TIME.fullmatch(str(each).lower())):
        known = [[number_of(row.get(name)) for row in each] for each in (ours, theirs)]
        if any(one is None for each in known for one in each):
            continue
        mine = sorted(one for one in known[0] if one is not None)
        early = mine[len(mine) // 10]
        before = [n for n, one in enumerate(known[1]) if one is not None and one < early]
        if before:
            return relation("eval before train", len(before), len(theirs), (str(name),), before)
    return None


def number_of(value: Foreign) -> Optional[float]:
    """A time as a number, that of the last step of a window."""
    if isinstance(value, torch.Tensor) and value.numel():
        value = value.reshape(-1)[-1].item()
    return float(value) if isinstance(value, (int, float)) else None


def plain(value: Foreign) -> Union[int, str, None]:
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 else None
    return value if isinstance(value, (int, str)) else None


def texts(ours: List[Foreign], theirs: List[Foreign]) -> Optional[Dict[str, Any]]:
    """Texts that differ from one of train, but in case, punctuation and space alone."""
    known: Dict[bytes, Set[str]] = {}
    for text in map(text_of, ours):
        for key in keys_of(text):
            known.setdefault(key, set()).add(row_contents.normal(text))
    found, whole_rows = [], 0
    for number, text in enumerate(map(text_of, theirs)):
        for key in keys_of(text):
            whole_rows += 1
            same = known.get(key, set())
            found += [number] if same and row_contents.normal(text) not in same else []
    return relation("nearly in train", len(found), whole_rows, ("text",), found) if found else None


def text_of(row: Foreign) -> str:
    values = row.values() if containers.is_mapping(row) else row
    each = values if not isinstance(row, str) else [row]
    found = [e for e in each if isinstance(e, str)] if observing.has(each, "__iter__") else []
    return max(found, key=len, default="")


def keys_of(text: str) -> List[bytes]:
    words = WORDS.findall(text.lower())
    if len(words) < LEAST_WORDS:
        return []
    return [hashlib.blake2b(" ".join(words).encode("utf-8", "replace"), digest_size=16).digest()]


def images(ours: List[Foreign], theirs: List[Foreign]) -> Optional[Dict[str, Any]]:
    """Images of eval that are one of train, brighter, noisier or turned."""
    one, two = details(ours), details(theirs)
    if one is None or two is None or one.shape[1:] != two.shape[1:]:
        return None
    alike = one.flatten(1) @ one.flatten(1).T
    alike.fill_diagonal_(0)
    if float((alike.max(1).values > BETWEEN_OTHERS).float().mean()) > 0.5:
        return None  # copies, or a few lines on an empty ground: nothing can be said
    spread = alike[~torch.eye(len(one), dtype=torch.bool)]
    if float((spread > BETWEEN_OTHERS).float().mean()) > 0.01:
        return None
    best = torch.stack([
        alike_all_over(two.flip(axes) if axes else two, one) for axes in ((), (-1,), (-2,))
    ]).max(0).values.max(1).values  # fmt: skip
    equal = {each.numpy().tobytes() for each in map(grey_of, sampled(ours)) if each is not None}
    found = [
        n
        for n, (each, row) in enumerate(zip(best.tolist(), map(grey_of, sampled(theirs))))
        if each >= SAME_DETAIL and row is not None and row.numpy().tobytes() not in equal
    ]
    return relation("nearly in train", len(found), len(two), ("image",), found) if found else None


def alike_all_over(two: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
    """Correlations of details; 0 where few parts have them: an object alone, on a ground of its
    own, is at one place."""
    whole_image = two.flatten(1) @ one.flatten(1).T
    alike = torch.zeros_like(whole_image)
    for ours, theirs in zip(parts_of(one), parts_of(two)):
        lengths = theirs.norm(dim=1)[:, None] * ours.norm(dim=1)[None]
        alike += (theirs @ ours.T) / lengths.clamp(min=1e-9) > BETWEEN_OTHERS
    return torch.where(alike >= MOST_PARTS * PARTS**2, whole_image, 0.0)


def parts_of(images: torch.Tensor) -> Iterator[torch.Tensor]:
    for band in images.tensor_split(PARTS, 1):
        yield from (each.flatten(1) for each in band.tensor_split(PARTS, 2))


def sampled(each: List[Foreign]) -> List[Foreign]:
    return each[:: -(-len(each) // MOST_IMAGES) or 1]


def grey_of(row: Foreign) -> Optional[torch.Tensor]:
    """The brightness of a row's image; None where it has none, or a small one."""
    image = image_of(as_batch(row))
    if image is None:
        return None
    grey = brightness(image[1])
    return grey if min(grey.shape) >= SIDE // 2 else None


def details(each: List[Foreign]) -> Optional[torch.Tensor]:
    """The fine structure of images, of mean 0 and length 1."""
    found = []
    for row in sampled(each):
        grey = grey_of(row)
        if grey is None:
            return None
        small = torch.nn.functional.adaptive_avg_pool2d(grey[None, None], SIDE)
        fine = (small - torch.nn.functional.avg_pool2d(small, 3, 1, 1))[0, 0, 1:-1, 1:-1]
        length = float(fine.norm())
        found.append(fine / length if length > 0 else fine)
    return torch.stack(found) if len(found) >= LEAST_IMAGES else None


Split = Tuple[Source, List[Foreign]]


def scaling(train: Split, other: Split) -> Optional[Dict[str, Any]]:
    """How the series that windows are cut from were scaled, or the features of all rows."""
    both = (train, other)
    series = [series_held(observing.attribute(each.items, "dataset")) for each, _ in both]
    if None in series:
        ours, theirs = (whole(*each) for each in both)
        return scaled(ours, theirs)
    return scaled(series[0], series[1], of_series=True)


def whole(source: Source, each: List[Foreign]) -> Optional[Tuple[str, torch.Tensor]]:
    """The features of all rows, and their name; None where not all were read, or they are none."""
    dataset = observing.attribute(source.items, "dataset")
    if len(each) != size(dataset) or len(each) < LEAST_ROWS:
        return None
    named = containers.tensors(as_batch(each[0]))
    name = next((n for n, e in named.items() if e.is_floating_point() and e.dim() == 2), None)
    if name is None or named[name].shape[1] < LEAST_COLUMNS:
        return None
    return name, torch.cat([host(containers.tensors(as_batch(row))[name]) for row in each]).double()


def series_held(dataset: Foreign) -> Optional[Tuple[str, torch.Tensor]]:
    """Steps x columns of measured numbers that a dataset holds, of which its rows are windows, and
    the name of that attribute; None where it holds none, or several."""
    held = observing.attribute(dataset, "__dict__", {})
    count = size(dataset) or 0
    found = []
    for name, value in held.items() if isinstance(held, dict) else ():
        series = table_of(value)
        if series is not None and max(LEAST_ROWS, count + 1) <= len(series) <= MOST_STEPS:
            found.append((str(name), series.double()))
    return found[0] if count and len(found) == 1 else None


def table_of(value: Foreign) -> Optional[torch.Tensor]:
    """Rows x columns of fractions, of a tensor or an array."""
    if not isinstance(value, torch.Tensor) and observing.has(value, "__array_interface__"):
        value = observing.attempt(lambda: torch.as_tensor(value), None)
    is_table = isinstance(value, torch.Tensor) and value.dim() == 2 and value.is_floating_point()
    return host(value) if is_table and value.shape[1] >= LEAST_COLUMNS else None


def scaled(
    ours: Optional[Tuple[str, torch.Tensor]],
    theirs: Optional[Tuple[str, torch.Tensor]],
    of_series: bool = False,
) -> Optional[Dict[str, Any]]:
    """Whether the columns were scaled in each split for itself, or in both together. Of series, the
    latter alone: recordings of patients and the like are scaled each for itself."""
    if ours is None or theirs is None or ours[0] != theirs[0]:
        return None
    name, one, two = ours[0], ours[1], theirs[1]
    if one.shape[1] != two.shape[1] or torch.equal(one, two):
        return None  # a table that both splits hold is looked up by both
    for form in (standard, filled):
        alone = [form(each) for each in (one, two)]
        together = form(torch.cat([one, two]))
        each_for_itself, joint = alone[0] & alone[1], together & ~alone[0] & ~alone[1]
        kinds = (
            ("scaled apart", each_for_itself, each_for_itself),
            ("fitted on eval", joint, together),
        )
        for kind, columns, scaled_columns in kinds[int(of_series) :]:
            count, whole_count = int(columns.sum()), int(scaled_columns.sum())
            if count >= LEAST_COLUMNS and whole_count > MOSTLY * int(measured(one).sum()):
                return relation(kind, 1, 1, (name,), (), (count, one.shape[1]))
    return None


def measured(values: torch.Tensor) -> torch.Tensor:
    """Which columns have more values than classes do."""
    return torch.tensor([len(torch.unique(values[:, n])) > 8 for n in range(values.shape[1])])


def standard(values: torch.Tensor) -> torch.Tensor:
    """The columns whose mean is 0 and whose spread is 1 but for rounding."""
    spread = (values.std(0) - 1).abs() < 1.0 / len(values) + EXACT  # by n or by n - 1
    return measured(values) & (values.mean(0).abs() < EXACT) & spread


def filled(values: torch.Tensor) -> torch.Tensor:
    """The columns that go from 0 to 1, where one row alone has each end."""
    low, high = values.min(0).values, values.max(0).values
    once = ((values == low).sum(0) == 1) & ((values == high).sum(0) == 1)
    return measured(values) & once & (low.abs() < EXACT**2) & ((high - 1).abs() < EXACT)
