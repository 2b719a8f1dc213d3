"""What differs between two splits as the model gets them, where one relation explains all of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch

from ..relations import relation
from . import changes, features
from .learner import CLEAR, above_chance, correlation
from .row_pairs import LEAST, MOSTLY, Side, differs, outputs_by
from .tables import Table

DIFFERENT, EXPLAINED = 1.5, 0.5
"""From which distance on there is something to explain, and the share of it that may remain. Our
own numbers."""
MOST_CHANGED = 128
"""Rows of eval on which changes are tried."""
LOST = 0.1
"""Of the correlation that a right change may cost."""
ALWAYS, HARDLY = 0.2, 0.02
"""Shares of the tokens of eval and of train that one token is. Our own numbers."""
SPREAD_OUT = 0.4
"""Of the logarithms of the spreads of columns that nobody scaled. Our own number."""
LIKE, UNLIKE = 4.0, 12.0
"""Differences of two means, in errors of it, that chance gives, and that it never does. Our own
numbers."""


LEAST_VALUES = 4
"""Of a row that was scaled for itself. Our own number."""


class Pair(NamedTuple):
    """A field of both splits."""

    name: str
    train: torch.Tensor
    other: torch.Tensor
    masks: List[Optional[torch.Tensor]]


def of_two(
    each: Tuple[Optional[Table], Optional[Table]],
    ours: Optional[Side],
    theirs: Optional[Side],
    condition: str = "",
) -> List[Dict[str, Any]]:
    """`condition`: what the datasets state of eval alone."""
    train, other = each
    if train is None or other is None or min(train.rows, other.rows) < LEAST:
        return []
    masks = [train.text, other.text]
    found = []
    for name in train.inputs:
        if name not in other.inputs:
            continue
        pair = Pair(name, train.inputs[name], other.inputs[name], masks)
        kind = "of another kind" if condition else "prepared apart"
        found += [
            relation(kind, 1, 1, (name, text, *filter(None, [condition])))
            for text in of_pair(pair, ours, theirs)
        ][:1]
    return found


def of_pair(pair: Pair, ours: Optional[Side], theirs: Optional[Side]) -> Iterator[str]:
    kinds = {features.kind_of(each) for each in (pair.train, pair.other)}
    if len(kinds) > 1:
        return
    kind = kinds.pop()
    if kind == "tokens":
        yield from of_tokens(pair)
    if kind == "image":
        yield from of_shapes(pair)
    if kind == "columns":
        yield from of_columns(pair)
    yield from of_rows(pair)
    yield from changed(pair, ours, theirs)


INVARIANTS: Dict[str, Tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "mean 0 and spread 1": (lambda rows: torch.stack([rows.mean(1) + 1, rows.std(1)]), 0.03),
    "a largest value of 1": (lambda rows: rows.abs().amax(1)[None], 1e-4),
    "length 1": (lambda rows: rows.norm(dim=1)[None], 1e-3),
    "sum 1": (lambda rows: rows.sum(1)[None], 1e-3),
}
"""What is 1 of a row that was scaled for itself, and how far it may be off."""


def of_rows(pair: Pair) -> Iterator[str]:
    """Rows that were scaled each for itself in one split alone."""
    one, two = (each.flatten(1).float() for each in (pair.train, pair.other))
    if min(one.shape[1], two.shape[1]) < LEAST_VALUES or not pair.train.is_floating_point():
        return
    if not all(bool(each.std(0).max() > 0) for each in (one, two)):
        return  # all rows are equal
    for text, (of, exact) in INVARIANTS.items():
        if features.kind_of(pair.train) == "image" and "largest" in text:
            continue  # a white pixel
        shares = [float(((of(e) - 1).abs() < exact).all(0).float().mean()) for e in (one, two)]
        if max(shares) > 0.99 and min(shares) < 0.05:
            name = "train" if shares[0] > shares[1] else "eval"
            yield "each row has %s in %s alone" % (text, name)


def changed(pair: Pair, ours: Optional[Side], theirs: Optional[Side]) -> Iterator[str]:
    """The change that makes eval like train: by its values, or by what train teaches of it."""
    basis, plain = (features.of_field(e, m) for e, m in zip((pair.train, pair.other), pair.masks))
    if basis is None or plain is None:
        return
    if not fits_in(plain, basis):
        return  # longer rows may be meant
    apart = differs(basis, plain)
    teacher = Teacher(basis, ours, theirs)
    own = teacher.correlation(plain)
    if apart < DIFFERENT and (own is None or own >= MOSTLY * teacher.likely):
        return
    best, text = min(apart, 1.0), ""
    given = features.channels_first(pair.other) if pair.other.dim() == 4 else pair.other
    some = given[:: -(-len(given) // MOST_CHANGED)]
    mask = None if pair.masks[1] is None else pair.masks[1][:: -(-len(given) // MOST_CHANGED)]
    for change in changes.of_field(given):
        values = change.apply(some)
        made = features.of_field(values, mask) if ranges_alike(pair.train, values) else None
        left = differs(basis, made) if made is not None and fits_in(made, basis) else best
        if not left < best or (apart >= DIFFERENT and left >= EXPLAINED * apart):
            continue
        whole = features.of_field(change.apply(given), pair.masks[1])
        if whole is not None and teacher.agrees(whole, own, needed=apart < DIFFERENT):
            best, text = left, change.text
    if text:
        yield text


def ranges_alike(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether the second values are finite, and go hardly beyond the first ones."""
    low, high = float(one.min()), float(one.max())
    slack = EXPLAINED * (high - low)
    return low - slack <= float(two.min()) and float(two.max()) <= high + slack


def fits_in(made: torch.Tensor, basis: torch.Tensor) -> bool:
    return made.shape[1] == basis.shape[1]


class Teacher:
    """What train teaches of a field that is its only input."""

    def __init__(self, basis: torch.Tensor, ours: Optional[Side], theirs: Optional[Side]) -> None:
        self._basis, self._ours = basis, ours
        self._outputs: Optional[torch.Tensor] = None
        self.likely = 0.0
        """The correlation that eval should have, by what train explains of itself."""
        single = ours is not None and len(ours.table.inputs) == 1
        if ours is not None and theirs is not None and single and ours.own.is_clear:
            self.likely = max(0.0, ours.own.explained) ** 0.5
            self._outputs = outputs_by(ours, theirs, same_inputs=False)

    def predicted(self, made: torch.Tensor) -> torch.Tensor:
        assert self._ours is not None
        scaled = features.joined({"": features.standard(made, self._basis)}, [""])
        return self._ours.learner.predict(scaled)

    def correlation(self, made: torch.Tensor) -> Optional[float]:
        """With the targets of eval; None where train teaches nothing."""
        return (
            correlation(self.predicted(made), self._outputs) if self._outputs is not None else None
        )

    def agrees(self, made: torch.Tensor, own: Optional[float], *, needed: bool) -> bool:
        """Whether it is as right of such values as of the given ones, or far more where that is
        `needed`, because the values themselves show nothing."""
        learned = self.correlation(made)
        if learned is None or self._outputs is None:
            return not needed
        if not needed:
            return own is None or learned > own - LOST
        if learned < MOSTLY * self.likely or (own is not None and own >= MOSTLY * learned):
            return False
        return above_chance(self.predicted(made), self._outputs) >= CLEAR


def of_shapes(pair: Pair) -> Iterator[str]:
    """Sides that are exchanged, and images that have lost their color."""
    layouts = [axis_of(each) for each in (pair.train, pair.other)]
    if layouts[0] != layouts[1]:
        yield "channels are in dimension %d in train, and in %d in eval" % tuple(layouts)
        return
    one, two = (features.channels_first(each) for each in (pair.train, pair.other))
    sides = [tuple(each.shape[2:]) for each in (one, two)]
    if sides[0] == sides[1][::-1] != sides[1]:
        yield "sides are exchanged: %d x %d in train, %d x %d in eval" % (
            *sides[0], *sides[1],
        )  # fmt: skip
    if one.shape[1] == two.shape[1] == 3:
        grey = [is_gray(each) for each in (one, two)]
        if grey[0] != grey[1]:
            yield "all channels are equal in %s alone: it is gray" % (
                "train" if grey[0] else "eval"
            )


def axis_of(images: torch.Tensor) -> int:
    return 1 if images.dim() == 3 or images.shape[1] <= 4 else 3


def is_gray(value: torch.Tensor) -> bool:
    """Whether all channels are equal, before a normalization."""
    ways = [([0.0] * 3, [1.0] * 3), *changes.SHORT.values()]
    made = [changes.by_channel(std, mean, value[:32]) for mean, std in ways]
    return any(bool(torch.isclose(each[:, :1], each, atol=2e-4).all()) for each in made)


def of_columns(pair: Pair) -> Iterator[str]:
    """Columns that are in another unit, or were standardized in train alone."""
    one, two = pair.train.float(), pair.other.float()
    if one.shape[1] != two.shape[1] or one.shape[1] < 2:
        return
    if moved := reordered(one, two):
        yield "%d columns stand in another order in eval" % moved
        return
    apart = [n for n in range(one.shape[1]) if differs(one[:, n : n + 1], two[:, n : n + 1]) > 2]
    if apart and len(apart) <= one.shape[1] / 2:
        for number in apart:
            text = unit_of(one[:, number], two[:, number])
            if text:
                yield "column %d of eval = that of train %s" % (number, text)
                return
    for text, left, right in (("train", one, two), ("eval", two, one)):
        if 2 * len(apart) >= one.shape[1] and is_standard(left) and is_raw(right):
            yield "columns have mean 0 and spread 1 in %s alone" % text
            return


def is_raw(values: torch.Tensor) -> bool:
    """Whether columns have each a mean and a spread of its own: a drift moves them less."""
    spreads = values.std(0).clamp(min=1e-9).log()
    return bool(values.mean(0).abs().median() > 1) and bool(spreads.std() > SPREAD_OUT)


def reordered(one: torch.Tensor, two: torch.Tensor) -> int:
    """Columns of eval that are distributed like another one of train, and not like their own."""
    error = (one.var(0)[:, None] / len(one) + two.var(0)[None] / len(two)).sqrt().clamp(min=1e-12)
    apart = (one.mean(0)[:, None] - two.mean(0)[None]).abs() / error
    spreads = (one.std(0)[:, None] / two.std(0)[None].clamp(min=1e-12)).log().abs()
    like = (apart < LIKE) & (spreads < 0.2)
    own = like.diagonal()
    unlike = (apart.diagonal() > UNLIKE) | (spreads.diagonal() > 0.7)
    moved = [n for n in range(two.shape[1]) if bool(unlike[n]) and int(like[:, n].sum()) == 1]
    origins = {int(like[:, n].float().argmax()) for n in moved}
    settled = bool(own[[n for n in range(len(own)) if n not in moved]].all())
    return len(moved) if len(moved) > 1 and origins == set(moved) and settled else 0


def is_standard(values: torch.Tensor) -> bool:
    near = (values.mean(0).abs() < 0.1) & ((values.std(0) - 1).abs() < 0.1)
    return float(near.float().mean()) > 0.7


def unit_of(one: torch.Tensor, two: torch.Tensor) -> str:
    """The factor that makes a column of eval one of train; it is not near 0 where all are."""
    for factor in changes.FACTORS:
        for by, text in ((factor, "x %g"), (1 / factor, "/ %g")):
            if differs(one[:, None], two[:, None] / by) < MOSTLY and factor > 2:
                return text % factor
    return ""


def of_tokens(pair: Pair) -> Iterator[str]:
    """A token that eval alone is full of."""
    texts = [text_of(e, m) for e, m in zip((pair.train, pair.other), pair.masks)]
    if min(map(len, texts)) < 500 or int(min(each.min() for each in texts)) < 0:
        return
    count = int(max(each.max() for each in texts)) + 1
    if count > 1_000_000:
        return
    one, two = (torch.bincount(each, minlength=count).double() / len(each) for each in texts)
    most = int((two - one).argmax())
    inner = within(pair.other, most)
    if two[most] >= ALWAYS and one[most] <= HARDLY and inner >= ALWAYS:
        yield "token %d is %.0f %% of eval, %.1g %% of train, as unknown words" % (
            most, 100 * float(two[most]), 100 * float(one[most]),
        )  # fmt: skip
        return


def within(ids: torch.Tensor, token: int) -> float:
    """The share of a token between the first and the last other one of each row."""
    other = ids != token
    inner = (other.cumsum(1) > 0) & (other.flip(1).cumsum(1).flip(1) > 0)
    rows = inner & other.any(1, keepdim=True)
    return float((~other & rows).sum() / rows.sum().clamp(min=1))


def text_of(ids: torch.Tensor, mask: Optional[torch.Tensor]) -> torch.Tensor:
    return ids[ids != 0] if mask is None or mask.shape != ids.shape else ids[mask != 0]
