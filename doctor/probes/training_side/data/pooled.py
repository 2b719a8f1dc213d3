"""Padding that a classifier of a decoder takes for text, as the model's configuration names another
token for it: the score is read behind the text."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any, Dict, List, Tuple

import torch

from ..foreign import Foreign, observing
from .documents import Tokens
from .relations import relation


class Pooled:
    """Rows that are padded on the right by a token that the model does not know as padding."""

    def __init__(self, module: Foreign) -> None:
        pad = observing.attribute(observing.attribute(module, "config"), "pad_token_id")
        self._pad = pad if isinstance(pad, int) and finds_the_end(module) else None
        self._rows: List[Tuple[int, int]] = []
        self._padded = 0

    def add(self, tokens: Tokens, first_row: int) -> None:
        if self._pad is None or tokens.mask is None:
            return
        for number, (ids, mask) in enumerate(zip(tokens.ids, tokens.mask)):
            if int(mask[-1]) or not bool(mask.any()):
                continue
            self._padded += 1
            if int(ids[-1]) != self._pad:
                self._rows.append((first_row + number, int(ids[-1])))

    def records(self) -> List[Dict[str, Any]]:
        if self._pad is None or not self._rows:
            return []
        token = Counter(each for _, each in self._rows).most_common(1)[0][0]
        rows = [row for row, _ in self._rows]
        return [relation("padding pooled", len(rows), self._padded, (), rows, (token, self._pad))]


def finds_the_end(module: Foreign) -> bool:
    """Whether its class looks for the last token of a row by the number of the padding."""
    for each in module.modules() if isinstance(module, torch.nn.Module) else ():
        if type(each).__name__.endswith("ForSequenceClassification"):
            code = observing.code_of(inspect.unwrap(type(each).forward))
            return code is not None and "pad_token_id" in code.co_names
    return False
