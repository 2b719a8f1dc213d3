"""Whether targets belong to the inputs of their rows: a learner predicts them better from another
row, or in one split alone."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from ..relations import relation
from . import features
from .learner import CHANCE, CLEAR, Learner, Score, above_chance, correlation, outputs_of
from .tables import BLOCK, Table

SHIFTS = 16
"""Rows by which targets may be displaced."""
LEAST = 64
"""Rows of a split of which something is said."""
APART, SPREAD_APART = 0.5, 0.5
"""Differences of nearly all means, in spreads, and of the logarithms of spreads, that two splits
of one preparation have. Our own numbers."""
MOST_CLASSES = 20
MOSTLY, BEST = 0.6, 0.5
"""Of the best correlation, what the own pairs have at most, and the least best one. Our own
numbers."""
ORDERED = ("columns", "series", "column")
"""Kinds of inputs whose target may be of a later row on purpose, as a forecast's."""

COVERED, NUMBERED = "inputs tell targets", "targets numbered apart"
BY_TEXT = "numbers as text: 10 before 2"

Order = Tuple[str, torch.Tensor]


class Side(NamedTuple):
    """A split, as a learner sees it."""

    name: str
    table: Table
    learner: Learner
    made: Dict[str, torch.Tensor]
    """The features of each input."""
    classes: torch.Tensor
    own: Score


def side_of(name: str, table: Optional[Table]) -> Optional[Side]:
    """None where it has no inputs and targets that a learner knows, or few rows."""
    if table is None or table.rows < LEAST:
        return None
    outputs = outputs_of(table.target)
    made = features.of_table(table) if outputs is not None else {}
    if outputs is None or not made:
        return None
    scaled = {n: features.standard(each, each) for n, each in made.items()}
    scaled = {n: each for n, each in scaled.items() if each.shape[1]}
    if not scaled:
        return None
    learner = Learner(features.joined(scaled, sorted(scaled)), outputs[0])
    return Side(name, table, learner, made, outputs[1], learner.own())


def fits(made: Dict[str, torch.Tensor], basis: Dict[str, torch.Tensor], name: str) -> bool:
    return name in basis and basis[name].shape[1] == made[name].shape[1]


def of_split(side: Optional[Side]) -> List[Dict[str, Any]]:
    """Where the own pairs tell nothing, and those with another row do."""
    if side is None:
        return []
    found = [covered(side)]
    if not side.own.is_chance:
        return found
    orders = orders_of(side.table)
    scores = side.learner.scores([order for _, order in orders])
    best = max(range(len(orders)), key=lambda n: scores[n].above, default=None)
    if best is not None and scores[best].is_clear and not may_be_meant(side, orders[best][0]):
        found.append(displaced(side.name, orders[best][0], side.own.explained,
                               scores[best].explained, side.table.rows))  # fmt: skip
    return found


def covered(side: Side) -> Dict[str, Any]:
    """That a learner was asked, and whether it learned anything."""
    part = side.table.rows if side.own.is_clear else 0
    return relation(COVERED, part, side.table.rows, (side.name,), (),
                    (side.own.explained,))  # fmt: skip


def displaced(name: str, how: str, own: float, best: float, rows: int) -> Dict[str, Any]:
    return relation("targets of other rows", rows, rows, (name, how), (), (own, best))


def may_be_meant(side: Side, how: str) -> bool:
    """A forecast's target is made of a later row, and that of a frame may be of one around it."""
    if how.startswith(("later", "earlier")) and features.of_series(side.learner.features):
        return True
    kinds = {features.kind_of(each) for each in side.table.inputs.values()}
    return how.startswith("later") and bool(kinds & set(ORDERED))


def orders_of(table: Table) -> List[Order]:
    """Which row's target each input may have: rows further, in turn, or as a sorted text."""
    found: List[Order] = []
    place = torch.arange(table.rows)
    start, within = place - place % BLOCK, place % BLOCK
    whole = table.total == table.rows
    for step in [n for n in range(-SHIFTS, SHIFTS + 1) if n]:
        size = torch.minimum(torch.tensor(BLOCK), table.rows - start)
        order = (place + step) % table.rows if whole else start + (within + step) % size
        text = "%s: %d row%s" % (
            "earlier" if step > 0 else "later",
            abs(step),
            "s" * (step not in (1, -1)),
        )
        found.append((text, order))
    if whole:
        found.append(("the opposite order", place.flip(0)))
        by_text = sorted(range(table.rows), key=str)
        found += [(BY_TEXT, torch.tensor(by_text)), (BY_TEXT, torch.tensor(by_text).argsort())]
    return found


def of_two(train: Optional[Side], other: Optional[Side]) -> List[Dict[str, Any]]:
    """What a learner of one split shows of the other one."""
    if train is None or other is None:
        return []
    if not are_alike(train, other):
        return []
    for known, asked in ((train, other), (other, train)):
        if not known.own.is_clear:
            continue
        found = of_asked(known, asked)
        if found is not None:
            return [found]
    return []


def of_asked(known: Side, asked: Side) -> Optional[Dict[str, Any]]:
    outputs = outputs_by(known, asked)
    if outputs is None:
        return None
    predicted = known.learner.predict(features_by(known, asked))
    own, above = correlation(predicted, outputs), above_chance(predicted, outputs)
    if above < CLEAR and len(known.classes) and asked.own.is_clear:
        moved = renumbered(predicted, known, asked)
        if moved is not None:
            return moved
    if above < -CLEAR and not len(known.classes) and own < -BEST:
        return relation(NUMBERED, 1, 1, ("the sign is the opposite one",))
    orders = orders_of(asked.table)
    each = [correlation(predicted, outputs[order]) for _, order in orders]
    best = max(range(len(orders)), key=lambda n: each[n])
    fits_best = each[best] >= BEST and own < MOSTLY * each[best]
    if fits_best and above_chance(predicted, outputs[orders[best][1]]) >= CLEAR:
        return displaced(asked.name, orders[best][0], own, each[best], asked.table.rows)
    if above < CHANCE and asked.own.is_chance and known.own.above > 1.5 * CLEAR:
        rows = asked.table.rows
        return relation("targets of no row", rows, rows, (asked.name, known.name), (),
                        (asked.own.explained, known.own.explained))  # fmt: skip
    return None


def features_by(known: Side, asked: Side) -> torch.Tensor:
    """The features of the second split, standardized by the first one."""
    made, basis = asked.made, known.made
    names = [n for n in sorted(basis) if fits(made, basis, n)]
    scaled = {n: features.standard(made[n], basis[n]) for n in names}
    return features.joined(scaled, [n for n in names if scaled[n].shape[1]])


def outputs_by(known: Side, asked: Side, same_inputs: bool = True) -> Optional[torch.Tensor]:
    """The outputs of the second split, in the columns of the first one."""
    target = asked.table.target
    if target is None:
        return None
    if same_inputs and not all(fits(asked.made, known.made, n) for n in known.made):
        return None
    if not len(known.classes):
        outputs = asked.learner.outputs
        return outputs if outputs.shape[1] == known.learner.outputs.shape[1] else None
    made = (target.reshape(-1, 1) == known.classes[None]).double()
    return made - made.mean(0)


def are_alike(one: Side, other: Side) -> bool:
    """Whether the inputs of both splits are distributed alike."""
    ours, theirs = one.made, other.made
    return all(fits(theirs, ours, name) and differs(ours[name], theirs[name]) < 1 for name in ours)


def differs(one: torch.Tensor, two: torch.Tensor) -> float:
    """How far two samples are apart, in what one preparation does not exceed."""
    spreads = [each.std(0) for each in (one, two)]
    used = torch.maximum(*spreads) > 1e-6
    if not bool(used.any()):
        return 0.0
    both = torch.maximum(*spreads)[used]
    apart = (one.mean(0) - two.mean(0)).abs()[used] / both
    ratio = ((spreads[0][used] + 1e-3 * both) / (spreads[1][used] + 1e-3 * both)).log().abs()
    return max(float(apart.quantile(0.9)) / APART, float(ratio.quantile(0.9)) / SPREAD_APART)


def renumbered(predicted: torch.Tensor, known: Side, asked: Side) -> Optional[Dict[str, Any]]:
    """The classes of the second split that those of the first one are there, where another
    numbering was found on one half of the rows and holds on the other one."""
    assert asked.table.target is not None
    ours, theirs = known.classes.long().tolist(), asked.classes.long().tolist()
    if len(theirs) > min(MOST_CLASSES, len(ours)) or 2 * len({*ours} & {*theirs}) < len(theirs):
        return None
    at = (asked.table.target.reshape(-1, 1) == asked.classes[None]).double().argmax(1)
    guessed = predicted.argmax(1)
    half = torch.arange(len(at)) % 2 == 0
    counts = torch.zeros(len(ours), len(theirs), dtype=torch.float64)
    ones = torch.ones(int(half.sum()), dtype=torch.float64)
    counts.index_put_((guessed[half], at[half]), ones, accumulate=True)
    meant = counts.argmax(0)
    right = float((meant[at] == guessed)[~half].double().mean())
    chance = float((torch.bincount(at).double() / len(at)).max())
    error = (chance * (1 - chance) / int((~half).sum())) ** 0.5
    moved = {ours[m]: theirs[n] for n, m in enumerate(meant.tolist())}
    if len(moved) < len(theirs) or right < max(MOSTLY, chance + 5 * error):
        return None
    texts = ["%d is %d" % each for each in moved.items() if each[0] != each[1]]
    text = ", ".join(texts[:5])
    return relation(NUMBERED, 1, 1, (text,)) if texts else None
