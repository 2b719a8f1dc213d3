"""Whether what is to be predicted stands in the input: in a column, at the end of a window or of a
history, in the decoder's input; and whether inputs that should differ are equal."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers
from .documents import host
from .relations import Relations, relation
from .views import LABELS

MOST_ROWS, MOST_VALUES, MOST_COLUMNS = 512, 65_536, 256
"""Rows that are compared, values of one of them, and columns that may each decide a class."""
LEAST_PER_CLASS, CLASSES, LEAST_TARGETS = 16, 10, 20
"""Rows of a class, classes, and different targets of a regression or of a choice. Our own
numbers."""
VIEWS = re.compile(r"(anchor|pos(itive)?|neg(ative)?|(view|img|image|x|aug|crop)_?[12abijqk]|query|"
                   r"key|q|k|noisy|clean|lr|hr)")  # fmt: skip
POSITIVE = re.compile(r"(pos|positive|next|target)(_?(item|product|movie|track|news))?(_?ids?)?")
NOISE = re.compile(r"(noise|noises|eps|epsilon|z|latent_noise)")
DECODED = re.compile(
    r"decoder_(input_ids|inputs?|ids)|(dec|tgt|trg|target|y|caption)_(in|input|inputs)"
)
TAUGHT = re.compile(r"labels|decoder_(targets?|labels|outputs?)|(dec|tgt|trg|target|y|caption)_"
                    r"(out|output|outputs|labels)")  # fmt: skip
"""Names of what a decoder gets, and of what it is to give."""
LARGE, SMALL = 1e4, 100.0
"""Mean sizes of the largest column of features and of a usual one. Our own numbers."""
IGNORED = -100


class Given:
    """Rows of inputs and targets; `records` has what holds between them."""

    def __init__(self) -> None:
        self._relations = Relations()
        self._targets: List[torch.Tensor] = []
        self._fields: Dict[str, List[torch.Tensor]] = {}
        self._rows = 0
        self._of_items = False
        self._one: Optional[torch.Tensor] = None
        """The vector that all targets are."""
        self._alike = 0

    def add(self, batch: Foreign, tokens: bool, first_row: int) -> None:
        named = {name: host(each) for name, each in containers.tensors(batch).items()}
        self._add_views(batch, named, first_row)
        self._add_noise(named, first_row)
        self._add_decoder(named, first_row)
        label = label_name(batch, named)
        name = positive_of(named) if label is None else label
        if name is not None and not (tokens and not named[name].is_floating_point()):
            self._add_alike(named[name])
        if name is None or tokens or self._rows >= MOST_ROWS:
            return
        target = named[name]
        self._rows += len(target)
        self._targets.append(target)
        self._of_items = label is None
        for field, each in named.items():
            fits = field != name and each.dim() in (2, 3) and len(each) == len(target)
            if fits and each[0].numel() <= MOST_VALUES and each.dtype is not torch.bool:
                self._fields.setdefault(field, []).append(each)

    def _add_views(self, batch: Foreign, named: Dict[str, torch.Tensor], first_row: int) -> None:
        """Inputs that are named as two of a kind, or are in one container."""
        for one, other in pairs_of(batch, named):
            first, second = named[one], named[other]
            if first.shape != second.shape or first.dim() < 2 or not first.is_floating_point():
                continue
            equal = (first == second).reshape(len(first), -1).all(1)
            for number, each in enumerate(equal.tolist()):
                self._relations.count("equal inputs", each, first_row + number, one, other)

    def _add_noise(self, named: Dict[str, torch.Tensor], first_row: int) -> None:
        """Noise that was drawn once for a whole batch."""
        for name, each in named.items():
            drawn = NOISE.fullmatch(name.lower()) and each.is_floating_point() and each.dim() > 1
            if drawn and len(each) > 1 and each[0].numel() > 1:
                equal = bool((each == each[:1]).all())
                for number in range(len(each)):
                    self._relations.count("noise equal", equal, first_row + number, name)

    def _add_decoder(self, named: Dict[str, torch.Tensor], first_row: int) -> None:
        roles = {name.split(".")[-1].lower(): each for name, each in named.items()}
        ids = next((each for name, each in roles.items() if DECODED.fullmatch(name)), None)
        labels = next((each for name, each in roles.items() if TAUGHT.fullmatch(name)), None)
        if ids is None or labels is None or ids.shape != labels.shape or ids.dim() != 2:
            return
        same = ((ids == labels) | (labels == IGNORED)).all(1) & (labels != IGNORED).any(1)
        for number, each in enumerate(same.tolist()):
            self._relations.count("decoder sees target", each, first_row + number)

    def _add_alike(self, target: torch.Tensor) -> None:
        """Vectors of several classes, or of several numbers."""
        if self._alike < 0 or target.dim() != 2 or not 1 < target.shape[1] <= MOST_COLUMNS:
            return
        if bool((target < 0).all()):
            return  # nothing is trained, see DAT001
        self._one = target[0] if self._one is None else self._one
        equal = self._one.shape == target[0].shape and bool((target == self._one).all())
        self._alike = self._alike + len(target) if equal and bool(self._one.any()) else -1

    def records(self) -> List[Dict[str, Any]]:
        found = self._relations.records()
        if self._alike > 1:
            found.append(relation("targets all equal", self._alike, self._alike))
        if not self._targets or len({each.shape[1:] for each in self._targets}) > 1:
            return found
        target = torch.cat(self._targets)
        for name, parts in self._fields.items():
            if len({each.shape[1:] for each in parts}) > 1:
                continue
            field = torch.cat(parts)
            found += unscaled(name, field)
            if len(field) == len(target):
                found += between(name, field, target, self._of_items)
        return found


def between(
    name: str, field: torch.Tensor, target: torch.Tensor, of_items: bool = False
) -> Iterator[Dict[str, Any]]:
    """What holds between a field of the input and the target. `of_items`: that is no label, whose
    equal columns are counted elsewhere."""
    plain = target.reshape(len(target), -1)
    classes = torch.unique(plain) if plain.shape[1] == 1 else plain[:0]
    few = 1 < len(classes) <= CLASSES and bool((classes == classes.round()).all())
    if few and field.dim() == 2 and field.is_floating_point():
        yield from separating(name, field, plain[:, 0], classes)
    held = column_of(field, target)
    if held is not None and not few:
        yield relation("column holds target", len(target), len(target), (name,), (), (held,))
        return
    last = plain[:, -1]
    column = field.dim() == 2 and plain.shape[1] == 1  # see agreement
    if few or target.shape == field.shape or len(torch.unique(last)) < LEAST_TARGETS:
        return
    if field.is_floating_point() and target.is_floating_point() and not column:
        found = holding(field.reshape(len(field), -1), last)
        if found is not None:
            yield relation("window holds target", len(last), len(last), (name,), (), (found,))
    elif field.dim() == 2 and not field.is_floating_point() and not target.is_floating_point():
        ends = (last_used(field) == last).tolist()
        rows = [n for n, each in enumerate(ends) if each]
        if rows and (of_items or not bool((field[:, -1] == last).all())):
            yield relation("history ends with target", len(rows), len(last), (name,), rows)


def unscaled(name: str, field: torch.Tensor) -> List[Dict[str, Any]]:
    """A record where one column of the features is far larger than most."""
    if not field.is_floating_point() or field.shape[-1] < 3:
        return []
    sizes = field.abs().reshape(-1, field.shape[-1]).mean(0)
    largest = int(sizes.argmax())
    if not LARGE < float(sizes[largest]) < float("inf") or not bool(sizes.median() < SMALL):
        return []
    return [relation("column unscaled", 1, 1, (name,), (), (largest, float(sizes[largest])))]


def separating(
    name: str, field: torch.Tensor, target: torch.Tensor, classes: torch.Tensor
) -> Iterator[Dict[str, Any]]:
    """Columns that have one value in all rows of a class and in none of the others, or, of two
    classes, a value above which all rows are of one."""
    groups = [torch.unique(field[target == each], dim=0) for each in classes]  # drawn again or not
    if field.shape[1] > MOST_COLUMNS or min(map(len, groups)) < LEAST_PER_CLASS:
        return
    for column in range(field.shape[1]):
        values = [each[:, column] for each in groups]
        lows, highs = [float(v.min()) for v in values], [float(v.max()) for v in values]
        for n, value in enumerate(values):
            rest = torch.cat([v for m, v in enumerate(values) if m != n])
            if (
                lows[n] == highs[n]
                and len(torch.unique(rest)) > 2
                and not bool((rest == lows[n]).any())
            ):
                yield relation("class has one value", len(value), len(target), (name,), (),
                               (column, float(classes[n])))  # fmt: skip
                return
        if len(values) == 2 and (highs[0] < lows[1] or highs[1] < lows[0]):
            yield relation("column separates", len(target), len(target), (name,), (), (column,))
            return


def column_of(field: torch.Tensor, target: torch.Tensor) -> Optional[int]:
    """The column of a series, rows x steps x columns, that is the target in all of its steps."""
    if field.dim() != 3 or target.shape != field.shape[:2] or not field.shape[2] > 1:
        return None
    if min(target.shape) < 2 or len(torch.unique(target)) < LEAST_TARGETS:
        return None
    equal = (field[:, :, :MOST_COLUMNS] == target[:, :, None]).all(0).all(0)
    return int(torch.nonzero(equal)[0]) if bool(equal.any()) else None


def holding(field: torch.Tensor, target: torch.Tensor) -> Optional[int]:
    """The place of the window that is the target in all rows, of several that are not."""
    equal = (field == target[:, None]).all(0)
    places = torch.nonzero(equal)
    return int(places[0]) if 0 < len(places) < field.shape[1] - 1 else None


def last_used(ids: torch.Tensor) -> torch.Tensor:
    """The last number of each row that is not 0."""
    places = torch.arange(ids.shape[1]) * (ids != 0)
    return ids.gather(1, places.argmax(1, keepdim=True))[:, 0]


def label_name(batch: Foreign, named: Dict[str, torch.Tensor]) -> Optional[str]:
    if containers.is_mapping(batch):
        found = next((name for name in LABELS if name in named), None)
    else:
        found = "[%d]" % (len(batch) - 1) if isinstance(batch, (list, tuple)) and batch else None
    several = len(named) > 1 and found in named and found is not None
    return found if several and found is not None and named[found].dim() else None


def positive_of(named: Dict[str, torch.Tensor]) -> Optional[str]:
    """The item that belongs to a row, beside negatives that do not."""
    plain = (n for n, each in named.items() if each.dim() == 1 and not each.is_floating_point())
    return next((name for name in plain if POSITIVE.fullmatch(name.lower())), None)


def pairs_of(batch: Foreign, named: Dict[str, torch.Tensor]) -> Iterator[Tuple[str, str]]:
    """Names of inputs that are two of a kind: by their names, as the views in one container, or
    as three of a tuple."""
    if containers.is_mapping(batch):
        plain = [n for n in named if VIEWS.fullmatch(n.lower().split(".")[-1])]
        yield from combinations(plain, 2)
        return
    inner = [n for n in named if re.fullmatch(r"\[0\]\[\d\]", n)]
    flat = [n for n in named if re.fullmatch(r"\[\d\]", n)]
    alike = len(flat) == 3 == len(named) and len({named[n].shape for n in flat}) == 1
    yield from combinations(inner or (flat if alike else []), 2)
