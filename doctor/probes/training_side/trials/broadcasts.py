"""Arithmetic of what does not belong together: a value for each sample with another dimension, the
output of a Linear, [n, 1], with a target, [n], rows of a table that are taken by the number of
samples, and similarities of all samples with one label for all."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

import torch

from ..foreign import Arguments, Foreign, Function, Options, Types, containers, observing
from ..subject import subjects
from ..subject.training_step import Subject
from . import outputs

ARITHMETIC = frozenset((
    *("add", "radd", "iadd", "sub", "rsub", "isub", "mul", "rmul", "imul", "div", "truediv"),
    *("rtruediv", "itruediv", "where", "masked_fill", "minimum", "maximum", "lerp"),
))  # fmt: skip
VIEWS = frozenset(("view", "reshape", "squeeze", "flatten", "ravel", "expand", "unsqueeze", "t"))
PRODUCTS = frozenset(("matmul", "mm", "einsum"))
LEAST = 3
"""Samples: with fewer, a dimension of as many entries is common, and one less is none."""


class Call(NamedTuple):
    """A call of arithmetic whose result is larger than what it got."""

    name: str
    shapes: Tuple[Tuple[int, ...], ...]
    place: str
    of_target: bool
    """Its row is a tensor of the batch."""


def trial(subject: Subject) -> Dict[str, Any]:
    """Evaluates the loss with the batch and with one sample less.

    A value for each sample that was aligned with another dimension, which had as many entries by
    chance, then no longer fits. A result [n, n] of [n, 1] and [n] follows the samples twice.
    """
    whole = Arithmetic(subject, subject.batch)
    whole.run()
    count = subjects.first_dimension(subject.batch)
    shorter: Optional[Arithmetic] = None
    if count and count >= LEAST:
        batch = subjects.rows_of(subject.batch, slice(count - 1))
        shorter = Arithmetic(subject, batch, count)
        observing.attempt(shorter.run, None)
        if shorter.crossed is not None:
            return _found("crossed", shorter.crossed)
        if shorter.rows is not None:
            return _found("rows", shorter.rows)
    for number, call in enumerate(whole.squares):
        follows = shorter is not None and len(shorter.squares) > number
        if call.of_target or (follows and shorter and _is_smaller(shorter.squares[number], call)):
            return _found("broadcast", call)
    for one, call in zip(shorter.alike if shorter else (), whole.alike):
        if one.shapes[0][0] == call.shapes[0][0] - 1:
            return _found("alike", call)
    return {"applies": True, "found": ""}


def _is_smaller(one: Call, other: Call) -> bool:
    return one.name == other.name and one.shapes != other.shapes


def _found(kind: str, call: Call) -> Dict[str, Any]:
    shapes = " and ".join(str(list(each)) for each in call.shapes)
    operation = "%s of %s" % (call.name.strip("_"), shapes)
    return {"applies": True, "found": kind, "operation": operation, "place": call.place}


class Arithmetic(outputs.Watch):
    """Looks at the arithmetic of one evaluation of the loss, on a batch that had `count` samples
    and lacks one of them."""

    def __init__(self, subject: Subject, batch: Foreign, count: int = 0) -> None:
        super().__init__(outputs.ignore)
        self.squares: List[Call] = []
        self.crossed: Optional[Call] = None
        self.rows: Optional[Call] = None
        self.alike: List[Call] = []
        """Cross entropies of similarities, [n, n], all of whose labels are the same."""
        self._subject, self._batch, self._count = subject, batch, count
        self._first = bool(count) and _come_first(subject)
        self._similarities: Set[int] = set()
        self._columns: Set[int] = set()
        """Addresses of outputs of a Linear, [n, 1], and of what is computed of one alone."""
        self._kept: List[torch.Tensor] = []
        self._targets = {
            observing.storage_address(each)
            for each in containers.tensors(batch).values()
            if each.dim() == 1
        }
        weights = [*subject.module.parameters(), *subject.module.buffers()]
        self._weights = {observing.storage_address(each) for each in weights}

    def run(self) -> None:
        was_training = self._subject.module.training
        try:
            with self:
                outputs.loss_as_trained(self._subject, self._batch)
        finally:
            self._subject.module.train(was_training)

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        name = observing.function_name(func).strip("_")
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        if name == "cross_entropy" and len(tensors) > 1:
            observing.attempt(lambda: self._look_at_labels(*tensors[:2]), None)
        if name in ARITHMETIC and len(tensors) > 1:
            observing.attempt(lambda: self._look(name, tensors[:2]), None)
        result = func(*args, **(kwargs or {}))
        observing.attempt(lambda: self._follow(name, tensors, result), None)
        return result

    def _look(self, name: str, pair: List[torch.Tensor]) -> None:
        shapes = tuple(tuple(each.shape) for each in pair)
        if self._count and self.crossed is None and _is_crossed(shapes, self._count):
            full = tuple(_with_all(shape, self._count) for shape in shapes)
            self.crossed = Call(name, full, outputs.place(), False)
        if self._first and self.rows is None and self._takes_rows(pair):
            full = tuple(_with_all(shape, self._count) for shape in shapes)
            self.rows = Call(name, full, outputs.place(), False)
        for column, row in (pair, pair[::-1]):
            addresses = [observing.storage_address(each) for each in (column, row)]
            fits = column.dim() == 2 and row.dim() == 1 and column.shape == (len(row), 1)
            if not fits or len(row) < 2 or addresses[0] not in self._columns:
                continue
            if addresses[1] not in self._columns and addresses[1] not in self._weights:
                known = addresses[1] in self._targets
                self.squares.append(Call(name, shapes, outputs.place(), known))

    def _look_at_labels(self, logits: torch.Tensor, labels: torch.Tensor) -> None:
        known = observing.storage_address(logits) in self._similarities
        if known and labels.dim() == 1 and bool((labels == labels[0]).all()):
            shapes = tuple(logits.shape), tuple(labels.shape)
            self.alike.append(Call("cross_entropy", shapes, outputs.place(), False))

    def _takes_rows(self, pair: List[torch.Tensor]) -> bool:
        """Whether one is a slice of a parameter or buffer with a row for each sample, of which
        there is one less; expand() repeats the same row."""
        for table, values in (pair, pair[::-1]):
            if not table.dim() or observing.storage_address(table) not in self._weights:
                continue
            rows = len(table) == self._count - 1 and bool(table.stride(0))
            if rows and table.dim() == values.dim() and len(values) == len(table):
                return observing.storage_address(values) not in self._weights
        return False

    def _follow(self, name: str, tensors: List[torch.Tensor], result: Foreign) -> None:
        """Note an output of a Linear, and what is computed of it without another shape; and square
        products of matrices, scaled or not."""
        for each in containers.tensors(result).values():
            scaled = name in ARITHMETIC and any(
                one.shape == each.shape and observing.storage_address(one) in self._similarities
                for one in tensors
            )
            square = each.dim() == 2 and each.shape[0] == each.shape[1] > 1
            if square and (name in PRODUCTS or scaled):
                self._similarities.add(observing.storage_address(each))
                self._kept.append(each)
            if each.dim() != 2 or each.shape[1] != 1 or name in VIEWS:
                continue
            of_column = any(
                one.shape == each.shape and observing.storage_address(one) in self._columns
                for one in tensors
            )
            if name == "linear" or of_column:
                self._columns.add(observing.storage_address(each))
                self._kept.append(each)


def _come_first(subject: Subject) -> bool:
    """Whether the first dimension is known to count samples and not steps, [length, samples]: a
    tensor has one value for each, in no order, or a layer states it."""
    each = [e for e in containers.tensors(subject.batch).values() if e.dim() == 1]
    unordered = any(bool((e[1:] <= e[:-1]).any()) for e in each)
    stated = (getattr(layer, "batch_first", False) is True for layer in subject.module.modules())
    return unordered or any(stated)


def _is_crossed(shapes: Tuple[Tuple[int, ...], ...], count: int) -> bool:
    """Whether the samples of one, of which there is one less, meet a dimension of the other that
    still has as many entries as there were samples."""
    small, large = sorted(shapes, key=len)
    if not small or len(small) == len(large):
        return False
    aligned = len(large) - len(small)
    return small[0] == large[0] == count - 1 and large[aligned] == count


def _with_all(shape: Tuple[int, ...], count: int) -> Tuple[int, ...]:
    return (count, *shape[1:]) if shape[0] == count - 1 else shape
