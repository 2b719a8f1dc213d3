"""One number of the input that gives the target away: a number of the row, a token at a place, a
length, an edge of the image."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import torch

from ..relations import relation
from . import features
from .tables import Table

LEAST_ROWS, PER_CLASS, MOST_CLASSES = 64, 8, 20
MOSTLY, HALF = 0.9, 0.5
"""Share of the rows, and of those of each class. Our own numbers."""
EDGE, PLACES = 2, 16
"""Pixels, and tokens at both ends of a text."""


class Alone(NamedTuple):
    text: str
    meant: bool
    """It may be."""


def of_table(name: str, table: Optional[Table]) -> List[Dict[str, Any]]:
    if table is None or table.target is None or table.rows < LEAST_ROWS:
        return []
    flat = table.target.reshape(table.rows, -1)
    if flat.shape[1] != 1 or table.target.is_floating_point():
        return []
    classes, at, counts = torch.unique(flat[:, 0], return_inverse=True, return_counts=True)
    if not 1 < len(classes) <= MOST_CLASSES or int(counts.min()) < PER_CLASS:
        return []
    found = []
    for field, value in table.inputs.items():
        for each in of_field(value, at, len(classes), table):
            kind = "may give class away" if each.meant else "gives class away"
            found.append(relation(kind, table.rows, table.rows, (name, field, each.text)))
            break
    return found


def of_field(value: torch.Tensor, at: torch.Tensor, classes: int, table: Table) -> Iterator[Alone]:
    kind = features.kind_of(value)
    if kind == "tokens":
        yield from of_tokens(value, at, classes, table.text)
    elif kind == "image":
        yield from of_image(features.channels_first(value), at, classes)
    elif kind == "columns":
        yield from of_columns(value, at, classes, table.order)


def one_each(values: torch.Tensor, at: torch.Tensor, classes: int) -> torch.Tensor:
    """Rows x numbers: which numbers have one value in each class, and another one in each."""
    first = torch.stack([values[at == n][0] for n in range(classes)])
    constant = (values == first[at]).all(0)
    ordered = first.sort(0).values
    return constant & (ordered[1:] != ordered[:-1]).all(0)


def mostly_one_each(values: torch.Tensor, at: torch.Tensor, classes: int) -> torch.Tensor:
    """The same where nearly all rows of each class have its value: others may be cut."""
    usual = torch.stack([values[at == n].mode(0).values for n in range(classes)])
    same = values == usual[at]
    shares = torch.stack([same[at == n].float().mean(0) for n in range(classes)]).min(0).values
    ordered = usual.sort(0).values
    return (same.float().mean(0) >= MOSTLY) & (shares > HALF) & (ordered[1:] != ordered[:-1]).all(0)


def of_tokens(
    value: torch.Tensor, at: torch.Tensor, classes: int, mask: Optional[torch.Tensor]
) -> Iterator[Alone]:
    text = value != 0 if mask is None or mask.shape != value.shape else mask != 0
    shortest = int(text.sum(1).min())
    first = value[:, : min(PLACES, shortest)]
    last = from_end(value, text)[:, : min(PLACES, shortest)]
    differ = (value[:, : max(1, shortest)] != value[:1, : max(1, shortest)]).any(0)
    found = torch.nonzero(mostly_one_each(first, at, classes))[:, 0].tolist()
    if found and int(differ.sum()) > 1 + len(found):
        yield Alone("the token at place %d" % found[0], False)
        return
    found = torch.nonzero(mostly_one_each(last, at, classes))[:, 0].tolist()
    if found and int(differ.sum()) > 1 + len(found):
        yield Alone("the token at place %d from the end" % found[0], False)
        return
    lengths = text.sum(1, keepdim=True)
    if bool(one_each(lengths, at, classes).all()) and shortest > 1:
        yield Alone("the length of the text", True)


def from_end(value: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    """Rows whose text begins with its last token."""
    place = torch.arange(value.shape[1])
    end = (place * text).argmax(1, keepdim=True)
    return value.gather(1, (end - place).clamp(min=0))


def of_image(value: torch.Tensor, at: torch.Tensor, classes: int) -> Iterator[Alone]:
    """A pixel at the edge that is the number of the class in steps, in images that differ."""
    edges = torch.cat([
        value[:, :, :EDGE].flatten(1), value[:, :, -EDGE:].flatten(1),
        value[:, :, :, :EDGE].flatten(1), value[:, :, :, -EDGE:].flatten(1),
    ], 1).float()  # fmt: skip
    separating = one_each(edges, at, classes)
    varied = value.flatten(1)[:, ::17].float().std(0).median() > 0
    if not bool(separating.any()) or not bool(varied):
        return
    first = torch.stack([edges[at == n][0] for n in range(classes)])[:, separating]
    steps = first[1:] - first[:-1]
    even = classes > 2 and bool(((steps - steps[:1]).abs() < 1e-3 * steps[:1].abs()).all(0).any())
    yield Alone("a pixel at the edge", not even)


def of_columns(
    value: torch.Tensor, at: torch.Tensor, classes: int, order: torch.Tensor
) -> Iterator[Alone]:
    """The number of the row, where rows are sorted by class."""
    place = order.to(value.dtype)
    runs = 1 + int((at[1:] != at[:-1]).sum())
    for column in range(value.shape[1]):
        each = value[:, column]
        step = each - place
        if (
            runs == classes
            and bool((step == step[0]).all())
            and bool((place[1:] > place[:-1]).all())
        ):
            yield Alone("column %d, the number of the row" % column, False)
