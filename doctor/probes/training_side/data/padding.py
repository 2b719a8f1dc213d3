"""Whether padding is trained or attended to."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, observing
from .documents import Tokens, runs

MOST_ROWS = 5
ENCODERS = ("albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra",
            "modernbert", "mpnet", "roberta", "xlm-roberta")  # fmt: skip
IGNORED = -100
LONG = 2
"""Tokens of a run; one may be the end of the text, where both are the same token."""

MOST_UNJUDGED, LEAST, SHARE, LENGTHS = 512, 8, 0.25, 3
"""Rows without a known padding token that are kept; rows, their share and the different lengths of
the runs from which on it is recognized. Our own numbers."""
Row = Tuple[torch.Tensor, Optional[torch.Tensor], Optional[torch.Tensor]]


class Padding:
    """Counts over batches; `record` has them."""

    def __init__(self, pad: Optional[int], module: Foreign = None) -> None:
        self.pad = pad
        self.loss_known = True
        """Whether the target holds the loss, or something of a library whose loss is known."""
        self.ignored = False
        """A loss ignores a label that is not known, which may be the padding token."""
        self.sees_all = attends_without_mask(module)
        self.rows = self.excluded = self.trained = 0
        self.trained_rows: List[int] = []
        self.run_lengths: List[int] = []
        """Of each row, where the mask does not exclude the run."""
        self._unjudged: List[Row] = []
        """Rows that no mask shortens, where the padding token is not known."""
        self.attended = self.labelled = self.padded = self.unmasked = 0

    def add(self, tokens: Tokens, first_row: int) -> None:
        for number in range(len(tokens.ids)):
            self._add_row(tokens, number, first_row + number)

    def _add_row(self, tokens: Tokens, number: int, row: int) -> None:
        self.rows += 1
        ids = tokens.ids[number]
        labels = tokens.labels[number] if tokens.labels is not None else None
        mask = tokens.mask[number] if tokens.mask is not None else None
        if mask is not None and bool((mask == 0).any()):
            outside = mask == 0
            self.excluded += int(outside.sum())
            judged = labels is not None and not self.ignored
            if labels is not None and bool((labels[~outside] == IGNORED).any()):
                self.loss_known = True  # it ignores this number, and so not that of the padding
            wrong = int((labels[outside] >= 0).sum()) if judged else 0  # type: ignore[index]
            self.trained += wrong
            if wrong and len(self.trained_rows) < MOST_ROWS:
                self.trained_rows.append(row)
            return
        if self.pad is not None:
            self._add_run(self.pad, ids, labels, mask)
        elif len(self._unjudged) < MOST_UNJUDGED:
            self._unjudged.append((ids, labels, mask))

    def _add_run(
        self,
        pad: int,
        ids: torch.Tensor,
        labels: Optional[torch.Tensor],
        mask: Optional[torch.Tensor],
    ) -> None:
        first, last = runs(ids, pad)
        length = max(first, last)
        if length < LONG or length == len(ids):
            return
        part = slice(0, first) if first == length else slice(len(ids) - last, None)
        self.padded += 1
        self.run_lengths.append(length)
        self.attended += mask is not None or self.sees_all
        self.unmasked += mask is None
        if labels is not None and int((labels[part] >= 0).sum()) >= LONG:
            self.labelled += 1

    def record(self) -> Dict[str, Any]:
        pad = pad_of([ids for ids, _, _ in self._unjudged])
        if pad is not None:
            for row in self._unjudged:
                self._add_run(pad, *row)
        self._unjudged = []
        padded = len(set(self.run_lengths)) > 1  # rows of several lengths
        return {
            "type": "Padding",
            "rows": self.rows,
            "excluded": self.excluded,
            "trained": self.trained,
            "trained_rows": self.trained_rows,
            "padded": self.padded if padded else 0,
            "attended": self.attended if padded else 0,
            "labelled": self.labelled if padded and not self.ignored else 0,
            "unmasked": self.unmasked,
            "loss_known": self.loss_known,
        }


def attends_without_mask(module: Foreign) -> bool:
    """Whether it is an encoder of transformers, which sees all tokens where it gets no mask."""
    config = observing.attribute(module, "config")
    return observing.attribute(config, "model_type") in ENCODERS


def pad_of(rows: List[torch.Tensor]) -> Optional[int]:
    """The id that fills rows up at one side, in runs of several lengths, and stands nowhere else;
    None if there is none."""
    for side in (-1, 0):
        ends = Counter(int(ids[side]) for ids in rows if len(ids) > LONG)
        for pad, _ in ends.most_common(1):
            lengths = [runs(ids, pad)[side] for ids in rows]
            found = [length for length in lengths if length >= LONG]
            elsewhere = any(int((ids == pad).sum()) > n for ids, n in zip(rows, lengths))
            many = len(found) >= max(LEAST, SHARE * len(rows)) and len(set(found)) >= LENGTHS
            if many and not elsewhere:
                return pad
    return None
