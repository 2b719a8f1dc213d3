"""Whether the fields of batches agree: ids and classes with the tables that they index, targets
with the loss, values with what can be learned from."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from ..foreign import Foreign, containers, observing
from . import products
from .documents import Tokens, host
from .model_tables import blank_of, classes_of, entries_of, positions_of, types_of
from .views import LABELS
from .vocabulary import Vocabulary

MOST_ROWS = 5
MOST_COMPARED = 512
"""Rows of features that are compared with their targets."""
LENGTHS = ("target_lengths", "label_lengths", "labels_lengths", "label_length", "targets_lengths")
INPUT_LENGTHS = ("input_lengths", "input_length", "feature_lengths")
MANY, LEAST_ORDERED = 0.5, 64
"""Share of the rows that have different values, where an order tells something, and rows. Our own
numbers."""
LEAST_COLUMNS, MOST_COLUMNS, MOST_PARTS, LEAST_TARGETS = 5, 64, 3, 20
"""Columns of features, those that are the parts of a total, and different totals. Our own
numbers."""
NO_CLASS = 1e-6
"""How far a feature may be from its target in an affine relation, as a share of its range."""


class Agreement:
    """Counts over batches; `record` has them."""

    def __init__(self, vocabulary: Vocabulary, module: Foreign, criterion: Foreign) -> None:
        self.tables = {
            "ids": entries_of(module, vocabulary),
            "classes": classes_of(module),
            "positions": positions_of(module),
            "types": types_of(module),
        }
        self.highest: Dict[str, int] = {}
        self.beyond: Dict[str, List[int]] = {}
        self.lowest_id = 0
        self.negative: List[int] = []
        """Rows with a token id below 0."""
        self.unknown_id = observing.attribute(vocabulary.tokenizer, "unk_token_id")
        self.unknown = self.tokens = self.rows = 0
        self.blank = blank_of(criterion, module)
        self.targets = self.blanks = self.longer = self.empty = self.filled = 0
        self.target_rows: List[int] = []
        self.nonfinite: Dict[str, List[int]] = {}
        self._features: Dict[str, List[torch.Tensor]] = {}
        self._labels: List[torch.Tensor] = []

    def add(self, batch: Foreign, tokens: Optional[Tokens], first_row: int) -> None:
        named = containers.tensors(batch)
        rows = next((len(each) for each in named.values() if each.dim()), 0)
        self.rows += rows
        if tokens is not None:
            self._add_index("ids", tokens.ids, first_row)
            self._add_negative(tokens.ids, first_row)
            places = torch.arange(tokens.ids.shape[1]).expand(tokens.ids.shape)
            self._add_index("positions", tokens.others.get("position_ids", places), first_row)
            if "token_type_ids" in tokens.others:
                self._add_index("types", tokens.others["token_type_ids"], first_row)
            text = tokens.ids if tokens.mask is None else tokens.ids[tokens.mask != 0]
            self.tokens += text.numel()
            if isinstance(self.unknown_id, int):
                self.unknown += int((text == self.unknown_id).sum())
        labels = label_of(batch)
        if labels is not None and labels.dim() == 1 and not labels.is_floating_point():
            self._add_index("classes", labels, first_row)
        if labels is not None and self.blank is not None:
            self._add_targets(labels, named, first_row)
        self._add_nonfinite(named, rows, first_row)
        if labels is not None and tokens is None and tuple(labels.shape[1:]) in ((), (1,)):
            self._add_features(batch, labels.reshape(-1))

    def _add_index(self, kind: str, values: torch.Tensor, first_row: int) -> None:
        if not values.numel():
            return
        self.highest[kind] = max(self.highest.get(kind, 0), int(values.max()))
        table = self.tables[kind]
        if table is not None:
            over = (values >= table[0]).reshape(len(values), -1).any(1)
            found = [first_row + int(row) for row in torch.nonzero(over)]
            self.beyond.setdefault(kind, []).extend(found)

    def _add_negative(self, ids: torch.Tensor, first_row: int) -> None:
        """Padding stands at an end of a row; within it a model may replace a placeholder, as of an
        image."""
        if ids.dim() > 1 and ids.numel() and int(ids.min()) < 0:
            self.lowest_id = min(self.lowest_id, int(ids.min()))
            rows = ids.reshape(len(ids), -1)
            below = (rows[:, 0] < 0) | (rows[:, -1] < 0)
            self.negative += [first_row + int(row) for row in torch.nonzero(below)]

    def _add_targets(
        self, labels: torch.Tensor, named: Dict[str, torch.Tensor], first_row: int
    ) -> None:
        """Targets of a CTC loss: rows x positions, padded by negative numbers or by lengths."""
        lengths, inputs = _first(named, LENGTHS), _first(named, INPUT_LENGTHS)
        if labels.is_floating_point():
            return
        for number, part in enumerate(parts_of(labels, lengths)):
            self.targets += 1
            self.empty += not len(part)
            self.longer += inputs is not None and frames_for(part) > int(inputs[number])
            if bool(torch.eq(part, self.blank).any()):  # type: ignore[arg-type]
                self.blanks += 1
                self.filled += is_filled(part, self.blank)
                self.target_rows += [first_row + number] * (len(self.target_rows) < MOST_ROWS)

    def _add_nonfinite(self, named: Dict[str, torch.Tensor], rows: int, first_row: int) -> None:
        masks = [each for each in named.values() if each.dtype in (torch.bool, torch.long)]
        for name, value in named.items():
            if not value.is_floating_point() or not value.dim() or "mask" in name.lower():
                continue
            plain = host(value)
            bad = ~torch.isfinite(plain)
            if not bool(bad.any()):
                continue
            marked = any(each.shape == bad.shape and bool((host(each)[bad] == 0).all())
                         for each in masks)  # fmt: skip
            if not marked and len(plain) == rows:
                found = torch.nonzero(bad.reshape(rows, -1).any(1))
                self.nonfinite.setdefault(name, []).extend(first_row + int(n) for n in found)

    def _add_features(self, batch: Foreign, labels: torch.Tensor) -> None:
        if sum(map(len, self._labels)) >= MOST_COMPARED:
            return
        self._labels.append(labels)
        for name, each in containers.tensors(batch).items():
            fits = each.dim() == 2 and len(each) == len(labels) and 2 < each.shape[1] <= 4096
            if fits and name.split(".")[-1] not in LABELS and not is_label_place(batch, name):
                self._features.setdefault(name, []).append(host(each).double())

    def columns(self) -> List[Dict[str, Any]]:
        """Columns of the features that are the target, but for a factor and a difference."""
        rows = sum(map(len, self._labels))
        target = torch.cat(self._labels).double() if rows else torch.zeros(0)
        found = []
        for name, parts in self._features.items():
            made = torch.cat(parts)
            if len(made) != rows or len(torch.unique(target)) < 2 or not made.isfinite().all():
                continue
            width = made.shape[1]
            equal = [n for n in range(width) if is_affine(made[:, n], target)]
            equal = equal or [n for n in range(width) if is_monotone(made[:, n], target)]
            if 0 < len(equal) < width - 1:
                found.append({"type": "Column", "name": name, "column": equal[0], "rows": rows})
            elif not equal and (summed := parts_of_target(made, target)):
                found.append({"type": "Column", "name": name, "column": summed[0], "rows": rows,
                              "with_columns": summed[1:]})  # fmt: skip
            elif not equal and (factors := products.of_target(made, target)):
                found.append({"type": "Column", "name": name, "column": factors[0], "rows": rows,
                              "with_columns": factors[1:], "times": True})  # fmt: skip
        return found

    def record(self) -> Optional[Dict[str, Any]]:
        if not self.rows:
            return None
        indices = [
            {
                "type": "Indices",
                "kind": kind,
                "entries": table[0],
                "table": table[1],
                "highest": self.highest[kind],
                "beyond": len(self.beyond.get(kind, ())),
                "rows": self.beyond.get(kind, [])[:MOST_ROWS],
            }
            for kind, table in self.tables.items()
            if table is not None and kind in self.highest
        ]
        worst = max(self.nonfinite, key=lambda name: len(self.nonfinite[name]), default="")
        return {
            "type": "Agreement",
            "rows": self.rows,
            "indices": indices,
            "lowest_id": self.lowest_id,
            "negative": len(self.negative),
            "negative_rows": self.negative[:MOST_ROWS],
            "tokens": self.tokens if isinstance(self.unknown_id, int) else 0,
            "unknown": self.unknown,
            "blank": self.blank,
            "targets": self.targets,
            "blanks": self.blanks,
            "filled": self.filled,
            "longer": self.longer,
            "empty": self.empty,
            "target_rows": self.target_rows,
            "nonfinite": worst,
            "nonfinite_count": len(self.nonfinite.get(worst, ())),
            "nonfinite_rows": self.nonfinite.get(worst, [])[:MOST_ROWS],
            "columns": self.columns(),
        }


def has_lengths(batch: Foreign) -> bool:
    """Whether a batch has lengths of targets, as a CTC loss needs them."""
    return _first(containers.tensors(batch), LENGTHS) is not None


def parts_of(labels: torch.Tensor, lengths: Optional[torch.Tensor]) -> List[torch.Tensor]:
    """The target of each row; none where what pads them, or divides them, is not known."""
    if lengths is None:
        padded = labels.dim() == 2 and bool((labels < 0).any())
        return [row[row >= 0] for row in labels] if padded else []
    each = [int(length) for length in lengths]
    if labels.dim() == 1 and sum(each) == len(labels):
        return list(torch.split(labels, each))
    return [row[:length] for row, length in zip(labels, each)] if labels.dim() == 2 else []


def is_filled(target: torch.Tensor, blank: Optional[int]) -> bool:
    """Whether all of its blanks stand behind its letters, as padding does."""
    if blank is None:
        return False
    blanks = target.eq(blank)
    return not bool((blanks[:-1] & ~blanks[1:]).any())


def frames_for(target: torch.Tensor) -> int:
    """Steps that a target needs: one for each letter, and a blank between two equal ones."""
    return len(target) + int((target[1:] == target[:-1]).sum())


def of_ctc(calls: List[Dict[str, Any]], blank: Optional[int]) -> Dict[str, Any]:
    """The same counts from what the losses of some steps got."""
    targets = [each for call in calls for each in call["targets"]]
    inputs = [
        int(n)
        for call in calls
        for n in torch.as_tensor(call["input_lengths"]).reshape(-1).tolist()
    ]
    blanks = [n for n, each in enumerate(targets) if bool((each == blank).any())]
    empty = sum(not len(each) for each in targets)
    longer = sum(frames_for(each) > length for each, length in zip(targets, inputs))
    return {
        "targets": len(targets), "blanks": len(blanks), "longer": longer, "empty": empty,
        "filled": sum(is_filled(targets[n], blank) for n in blanks),
        "target_rows": blanks[:MOST_ROWS],
    }  # fmt: skip


def is_affine(values: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether the target is a factor of the values, and a difference, in all rows."""
    spread, other = values - values.mean(), target - target.mean()
    if not bool(spread.abs().max() > 0):
        return False
    slope = (spread * other).sum() / (spread * spread).sum()
    return bool((other - slope * spread).abs().max() <= NO_CLASS * other.abs().max())


def is_monotone(values: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether the values have the order of the target in all rows, as its logarithm has, or the
    opposite one; of numbers that are measured, and hardly ever equal."""
    if min(len(torch.unique(each)) for each in (values, target)) < MANY * len(target):
        return False
    if len(target) < LEAST_ORDERED:
        return False
    along = values[torch.argsort(target)]
    steps = along[1:] - along[:-1]
    return bool((steps >= 0).all()) or bool((steps <= 0).all())


def parts_of_target(features: torch.Tensor, target: torch.Tensor) -> List[int]:
    """The two or three columns, of five or more, whose weighted sum is the target in all rows, as
    the
    parts of a total; [] where there are none."""
    count = features.shape[1]
    spread = features.std(0)
    if not LEAST_COLUMNS <= count <= MOST_COLUMNS or len(target) < 4 * count:
        return []
    ones = torch.ones(len(features), 1, dtype=features.dtype)
    weights = torch.linalg.lstsq(torch.cat([features, ones], 1), target[:, None]).solution[:-1, 0]
    sizes = weights.abs() * spread
    used = torch.nonzero(sizes > 1e-3 * sizes.max())[:, 0].tolist()
    if not 2 <= len(used) <= MOST_PARTS or len(torch.unique(target)) < LEAST_TARGETS:
        return []
    made = features[:, used] @ weights[used]
    return used if is_affine(made, target) else []


def label_of(batch: Foreign) -> Optional[torch.Tensor]:
    value: Foreign = None
    if containers.is_mapping(batch):
        value = next((batch[name] for name in LABELS if name in batch), None)
    elif isinstance(batch, (list, tuple)) and len(batch) > 1:
        value = batch[-1]
    return host(value) if isinstance(value, torch.Tensor) and value.dim() else None


def is_label_place(batch: Foreign, name: str) -> bool:
    return isinstance(batch, (list, tuple)) and name == "[%d]" % (len(batch) - 1)


def _first(named: Dict[str, torch.Tensor], names: Any) -> Optional[torch.Tensor]:
    found = next((named[name] for name in names if name in named), None)
    return found if found is not None and found.dim() == 1 else None
