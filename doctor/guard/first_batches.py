"""The first batches of the loader that trains, counted as `doctor data` counts them.

Rows are copied when a batch arrives and counted one at a time at later batches, so that no step
waits. What is counted is the business of `doctor.probes.training_side.data`, which the checks of
data judge; of the content nothing is kept or written.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
import weakref
from collections import deque
from types import ModuleType
from typing import Callable

from .batch_sample import NotReadError, Sample, sample
from .epoch_orders import EpochOrders, Order, Passes, reference
from .foreign import Foreign
from .switch import raise_of_a_signal

PROBES = "_doctor_probes"
"""The name of the probes' package outside of the doctor."""
MODULES = (
    "foreign", "foreign.observing", "foreign.containers", "data.documents", "data.vocabulary",
    "data.labels", "data.padding", "data.inputs", "data.mixing",
)  # fmt: skip
"""Imported one by one."""
SAMPLES, BATCHES = 64, 64
"""That are counted; the order of classes needs 64 samples."""
COMPARED = 2048
"""Labels that are compared with their tokens, to tell whether they are those."""
SECONDS = 2.5e-4
"""At a batch, of copying and counting, apart from the last row."""
UNTOLD = "every label is ignored, and no gradients of a step show whether the loss reads labels"


class FirstBatches:
    """Follows the iterators of DataLoaders until one trains: a backward pass comes between two of
    its batches, which gradients are recorded for.

    `learned`: whether a gradient was not 0, None before those of a step were read. `write` gets
    the fields of the record. `open`: whether batches are still wanted.
    """

    def __init__(
        self,
        torch: ModuleType,
        passes: Passes,
        orders: EpochOrders,
        learned: Callable[[], bool | None],
        write: Callable[[dict[str, object]], None],
    ) -> None:
        self.torch = torch
        self.open = True
        self._passes, self._orders = passes, orders
        self._learned, self._write = learned, write
        self._order: Order | None = None
        self._waiting: weakref.WeakKeyDictionary[Foreign, tuple[int, Foreign]]
        self._waiting = weakref.WeakKeyDictionary()
        self._sampler: Foreign = None
        """A weak reference to the sampler of the loader that trains, once it is known."""
        self._units: deque[Callable[[], object]] = deque()
        self._counts: Counts | None = None
        self._rows = self._batches = 0
        self._taken = 0
        """Samples of the batches that were counted."""
        self._total: int | None = None

    def fetched(self, iterator: Foreign, data: Foreign) -> None:
        """An iterator returned a batch; an error ends the looking, not the guard."""
        try:
            until = time.perf_counter() + SECONDS
            recorded = self.torch.is_grad_enabled()
            with self.torch.no_grad():
                self._fetched(iterator, data, recorded)
                if self._sampler is not None:
                    self._work(until)
        except NotReadError as reason:
            self._end(str(reason))
        except Exception as error:
            raise_of_a_signal(error)
            self._end(f"looking at them raised {type(error).__name__}")

    def report(self) -> None:
        """Count what was copied, and write it with what is known by now."""
        try:
            with self.torch.no_grad():
                while self._units:
                    self._units.popleft()()
            if self._counts is not None:
                self._report()
        except Exception as error:
            raise_of_a_signal(error)
            self._end(f"looking at them raised {type(error).__name__}")
        self.open = False

    def _end(self, reason: str) -> None:
        """Batches like this one are not looked at."""
        self._write({"reason": reason})
        self.open = False
        self._units.clear()
        self._counts = None

    def _fetched(self, iterator: Foreign, data: Foreign, recorded: bool) -> None:
        sampler = iterator._index_sampler
        if self._sampler is None:
            before = self._waiting.get(iterator)
            if before is None or before[0] == self._passes.backwards:
                if recorded:
                    self._waiting[iterator] = self._passes.backwards, _read(self.torch, data)
                return
            self._choose(iterator, sampler)
            self._take(before[1])
        if self._sampler() is sampler and self._rows < SAMPLES and self._batches < BATCHES:
            self._take(_read(self.torch, data))

    def _choose(self, iterator: Foreign, sampler: Foreign) -> None:
        """This loader trains."""
        self._sampler = reference(sampler)
        self._order = self._orders.of(iterator)
        self._waiting.clear()
        self._units.extend([functools.partial(_module, name) for name in MODULES])
        self._units.append(self._begin)
        if getattr(iterator, "_dataset_kind", 1) == 0:  # a dataset with a length
            self._total = _size(iterator._dataset)

    def _begin(self) -> None:
        sampler = self._sampler()
        own = _module("data.mixing").has_own_order([sampler, getattr(sampler, "sampler", None)])
        self._counts = Counts(own_order=own)

    def _take(self, taken: Sample | NotReadError) -> None:
        if isinstance(taken, NotReadError):
            raise taken
        first = self._taken
        self._batches += 1
        self._rows += len(taken.rows)
        self._taken += taken.of
        self._units.append(lambda: self._count(taken, first))

    def _count(self, taken: Sample, first: int) -> None:
        assert self._counts is not None
        self._units.extendleft(reversed(self._counts.units(taken, first)))

    def _work(self, until: float) -> None:
        """Some of the counting; at its end the record."""
        while self._units:
            if time.perf_counter() > until:
                return
            self._units.popleft()()
        enough = self._rows >= SAMPLES or self._batches >= BATCHES
        if enough and self._counts is not None and not self._untold():
            self._report()
            self.open = False

    def _untold(self) -> bool:
        """Whether no label is trained, and no gradient tells yet whether the loss reads them."""
        if self._counts is None or self._learned() is not None:
            return False
        labels = self._counts.labels_record()
        return labels is not None and labels["unlabelled"] == labels["documents"]

    def _report(self) -> None:
        assert self._counts is not None
        if self._untold():
            return self._end(UNTOLD)
        record = self._counts.record(self._learned())
        whole = self._total is not None and self._taken >= self._total
        record["rows"], record["total"] = self._rows, self._total
        record["ended"] = "complete" if whole else "samples"
        if record["mixing"]["classes"] == 1 and self._rows < (self._total or sys.maxsize):
            record["mixing"]["classes"] = 0  # of a few rows: others may have another one
        record["epochs"] = self._order.record() if self._order is not None else None
        self._write({"split": record})


class Counts:
    """The counts over the rows of batches."""

    def __init__(self, *, own_order: bool) -> None:
        self.labels = _module("data.labels").LabelCounts(COMPARED)
        self.other_labels = _module("data.labels").OtherLabels()
        self.padding = _module("data.padding").Padding(None)
        self.inputs = _module("data.inputs").Inputs(None, "")
        self.mixing = _module("data.mixing").Mixing()
        self.batches = 0
        self._own_order = own_order

    def units(self, taken: Sample, first: int) -> list[Callable[[], None]]:
        """What counts a batch, parts of a row at a time."""
        documents, mixing = _module("data.documents"), _module("data.mixing")
        tokens = documents.tokens_of(taken.batch)
        self.batches += 1
        if tokens is None or tokens.foreign_labels:
            self.other_labels.add(taken.batch, first)
        self.mixing.kinds.add(mixing.kind_of(taken.batch))
        samples = mixing.samples_of(taken.batch, None) if tokens is None and taken.whole else []
        self.mixing.add_classes(taken.batch, len(taken.rows))

        def unit(number: int, row: int) -> list[Callable[[], None]]:
            return self._parts(tokens, samples, number, row, taken.whole)

        rows = [unit(number, first + row) for number, row in enumerate(taken.rows)]
        return [lambda: self.inputs.add(taken.batch), *[each for one in rows for each in one]]

    def _parts(
        self, tokens: Foreign, samples: list[Foreign], number: int, row: int, whole: bool
    ) -> list[Callable[[], None]]:
        """What counts a row, in parts of which each is short."""
        if tokens is None or number >= len(tokens.ids):
            kept = samples[number : number + 1]
            return [functools.partial(self.mixing.add_sample, each, row) for each in kept]
        one = _module("data.documents").row_of(tokens, number)
        parts: list[Callable[[], None]] = [
            functools.partial(self.padding.add, one, row),
            functools.partial(self._add_labels, one, row),
        ]
        return [*parts, functools.partial(self._add_sample, one, row)] if whole else parts

    def _add_labels(self, one: Foreign, row: int) -> None:
        for document in _module("data.documents").documents(one, row, None):
            self.labels.add(document)

    def _add_sample(self, one: Foreign, row: int) -> None:
        for each in _module("data.mixing").samples_of(None, one)[:1]:
            self.mixing.add_sample(each, row)

    def labels_record(self) -> dict[str, Foreign] | None:
        """The record Labels."""
        record: dict[str, Foreign] | None = self.labels.record() or self.other_labels.record()
        return record

    def record(self, learned: bool | None) -> dict[str, Foreign]:
        """The record Split, as far as it is known here."""
        labels = self.labels_record()
        if labels is not None:
            labels["learned"] = learned
        mixing = self.mixing.record(self._own_order)
        mixing["named"] = False  # nor is it known whether the loss reads the classes
        return {
            "type": "Split",
            "name": "train",
            "kind": "loader",
            "batches": self.batches,
            "labels": labels,
            "padding": self.padding.record() if self.padding.rows else None,
            "mixing": mixing,
            "inputs": self.inputs.record(),
        }


def _read(torch: ModuleType, data: Foreign) -> Foreign:
    """A sample, or why there is none: a batch that does not train may be of any kind."""
    try:
        return sample(torch, data)
    except NotReadError as reason:
        return reason
    except Exception as error:
        raise_of_a_signal(error)
        return NotReadError(f"reading one raised {type(error).__name__}")


def _size(dataset: Foreign) -> int | None:
    try:
        return len(dataset)
    except Exception as error:
        raise_of_a_signal(error)
        return None


def _module(name: str) -> Foreign:
    """A module of the probes, which lie beside the guard."""
    if PROBES not in sys.modules:
        package = ModuleType(PROBES)
        package.__path__ = [os.path.join(os.path.dirname(os.path.dirname(__file__)), "probes")]
        sys.modules[PROBES] = package
    return importlib.import_module(f"{PROBES}.training_side.{name}")
