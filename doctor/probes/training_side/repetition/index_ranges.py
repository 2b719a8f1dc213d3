"""The values of an index that exceed what they index: how many, which, and where they come from.

Embeddings and losses of classes are inspected by inspect_inputs.py, before a kernel reads them.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

import torch

from ..foreign import observing
from ..values import value_origins

OUT_OF_RANGE = re.compile(r"out of bounds|Class values must be|non-negative int", re.IGNORECASE)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
SHOWN = 3


class Index(NamedTuple):
    """An index, the number of its valid values, and the smallest of them."""

    values: torch.Tensor
    size: float
    least: int = 0


Call = Tuple[Any, Dict[str, Any]]


def observations(
    error: BaseException, function: Any, call: Call, origins: Any
) -> List[Dict[str, Any]]:
    """What is out of range in the arguments of the function that raised.

    `origins` is a value_origins.Called that has seen them being made.
    """
    rule = RULES.get(observing.function_name(function).strip("_"))
    if rule is None or not OUT_OF_RANGE.search(str(error)):
        return []
    for index in rule(*call):
        values = index.values.detach().cpu()
        outside = (values < index.least) | (values >= index.size)
        if bool(outside.any()):
            distinct = sorted(set(values[outside].tolist()))
            return [
                {
                    "type": "IndexRange",
                    "least": index.least,
                    "size": None if index.size == float("inf") else int(index.size),
                    "low": distinct[0],
                    "high": distinct[-1],
                    "some": distinct[:SHOWN],
                    "outside": int(outside.sum()),
                    "values": values.numel(),
                    "distinct": len(distinct),
                    "at": outside.nonzero().tolist()[:SHOWN] if values.dim() else [],
                    "origin": value_origins.described(origins.of(index.values), ""),
                }
            ]
    return []


Rule = Callable[[Any, Dict[str, Any]], Iterator[Index]]


def one_hot(args: Any, options: Dict[str, Any]) -> Iterator[Index]:
    size = args[1] if len(args) > 1 else options.get("num_classes", -1)
    yield Index(args[0], float("inf") if size < 0 else size)


def counted(args: Any, options: Dict[str, Any]) -> Iterator[Index]:
    yield Index(args[0], float("inf"))


def along(args: Any, options: Dict[str, Any]) -> Iterator[Index]:
    """gather, scatter, index_select, index_add: (tensor, dim, index, ...)."""
    dim = args[1] if len(args) > 1 else options.get("dim")
    index = args[2] if len(args) > 2 else options.get("index")
    if isinstance(index, torch.Tensor) and isinstance(dim, int) and args[0].dim():
        yield Index(index, args[0].shape[dim])


def taken(args: Any, options: Dict[str, Any]) -> Iterator[Index]:
    yield Index(args[1], args[0].numel(), -args[0].numel())


def indexed(args: Any, options: Dict[str, Any]) -> Iterator[Index]:
    """x[key] and x[key] = y, as far as each member of the key stands for one dimension."""
    keys = args[1] if isinstance(args[1], (tuple, list)) else (args[1],)
    for dim, key in enumerate(keys):
        if not isinstance(key, (torch.Tensor, int, slice)) or isinstance(key, bool):
            return
        if isinstance(key, torch.Tensor):
            if key.dtype not in INTEGERS or key.dtype == torch.uint8:
                return
            yield Index(key, args[0].shape[dim], -args[0].shape[dim])


RULES: Dict[str, Rule] = {
    "one_hot": one_hot,
    "bincount": counted,
    **dict.fromkeys(
        ("gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add",
         "index_copy", "index_fill", "take_along_dim"), along,
    ),
    "take": taken,
    **dict.fromkeys(("getitem", "setitem"), indexed),
}  # fmt: skip
