"""Sequences whose first dimension is their length, as pad_sequence returns them, where the first
dimension is taken for the samples."""

from __future__ import annotations

import itertools
import re

from doctor.checks.training.errors.explanation import Explanation, Shape, shape, text
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Raised

MASK = re.compile(r"padded?_mask\.shape\[0\] to be (\d+), but got (\d+)")
LOSS = re.compile("loss|entropy")
LEADING = re.compile(r"^(.*)\[\d+\]$")


def explain(own: OwnModel) -> Explanation | None:
    """What shows that samples are the second dimension; None if nothing does."""
    if own.raised is None:
        return None
    return _mask(own.raised) or _labels(own, own.raised) or _lengths(own, own.raised)


def _fix(raised: Raised) -> str:
    place = raised.observed.get("length first", "")
    where = f" in {place}" if place else ""
    return (
        f"Put the samples first: pad_sequence(sequences, batch_first=True){where}, or "
        "x.transpose(0, 1) before the model, and batch_first=True in recurrent layers and in "
        "nn.MultiheadAttention."
    )


def _mask(raised: Raised) -> Explanation | None:
    """A mask of padding with one row for each sample, beside a query with the samples second."""
    match, query = MASK.search(raised.message), raised.operand("query")
    if not match or query is None or len(shape(query)) != 3:
        return None
    batch, rows = int(match[1]), int(match[2])
    if shape(query)[:2] != (rows, batch) or rows == batch:
        return None
    return Explanation(
        f"the mask has {rows} rows, one for each sample, and the attention takes its input for "
        f"{batch} samples of length {rows}: the first two dimensions are exchanged",
        _fix(raised),
    )


def _labels(own: OwnModel, raised: Raised) -> Explanation | None:
    """As many predictions as the longest sequence has positions, beside one label for each
    sequence."""
    prediction, target = raised.operand("input"), raised.operand("target")
    if not LOSS.search(raised.function) or prediction is None or target is None:
        return None
    rows, labels = shape(prediction)[:1], shape(target)[:1]
    if not rows or not labels or rows == labels:
        return None
    numbers = f"{rows[0]} predictions against {labels[0]} labels"
    for each in own.batch:
        features = len(each.shape) == 2 and "int" not in each.dtype
        if each.shape[:2] == (*rows, *labels) and not features:
            return Explanation(
                f"{numbers}: of {each.name} of the batch, {text(each.shape)}, the second dimension "
                "is the number of the labels, not the first",
                _fix(raised),
            )
    for name, shapes in _lists(own).items():
        if len(shapes) == labels[0] and max(size[0] for size in shapes) == rows[0]:
            return Explanation(
                f"{numbers}: {name or 'the batch'} has {labels[0]} sequences, of which the longest "
                f"has {rows[0]} positions",
                _fix(raised),
            )
    return None


def _lengths(own: OwnModel, raised: Raised) -> Explanation | None:
    """Lengths of sequences, as many as the second dimension of another tensor has entries and up to
    its first one, where a layer takes the first one for the samples."""
    if "batch_first=True" not in raised.module_type + raised.code:
        return None
    for each, lengths in itertools.product(own.batch, own.batch):
        if len(lengths.shape) != 1 or "int" not in lengths.dtype or lengths.high is None:
            continue
        if each.shape[:2] == (int(float(lengths.high)), *lengths.shape):
            return Explanation(
                f"of {each.name} of the batch, {text(each.shape)}, the first dimension is the "
                f"largest of {lengths.name}, and the second one the number of samples",
                _fix(raised),
            )
    return None


def _lists(own: OwnModel) -> dict[str, list[Shape]]:
    """The lists of tensors in the batch, by their names."""
    lists: dict[str, list[Shape]] = {}
    for each in own.batch:
        if (match := LEADING.match(each.name)) and each.shape:
            lists.setdefault(match[1], []).append(each.shape)
    return lists
