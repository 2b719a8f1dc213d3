"""Predictions that lost the dimension of the samples, or were normalized over it."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from ..foreign import Arguments, Foreign, Options, graphs, observing

SOFTMAX = ("softmax", "log_softmax")
PASSING = ("log", "neg", "mul", "rmul", "div", "truediv", "clamp", "add", "float", "to")
"""Functions with one tensor, after which each value is still that of its sample and class."""
REDUCTIONS = ("MeanBackward1", "SumBackward1", "MaxBackward0", "AmaxBackward0")
FLATTENING = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")
MOST_NODES = 300


class OverSamples:
    """Follows softmaxes of [samples, classes] over the samples to what reads one value for each
    sample, by its label: weights of the samples are not read so."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._made: Dict[int, Tuple[int, ...]] = {}
        """Identity of the result -> its shape."""
        self._kept: List[torch.Tensor] = []

    def note(self, name: str, args: Arguments, options: Options, result: Foreign) -> None:
        """Remember the result of a softmax over the samples, and what is computed of it alone."""
        if not isinstance(result, torch.Tensor) or not args or self._samples < 2:
            return
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        made = name in SOFTMAX and self._is_over_samples(args, options)
        passed = name.strip("_") in PASSING and len(tensors) == 1 and id(tensors[0]) in self._made
        if made or passed:
            self._made[id(result)] = tuple(result.shape)
            self._kept.append(result)

    def _is_over_samples(self, args: Arguments, options: Options) -> bool:
        dim = options.get("dim", args[1] if len(args) > 1 else None)
        value = args[0]
        if not isinstance(dim, int) or value.dim() != 2 or not value.requires_grad:
            return False
        samples, classes = value.shape
        return dim % 2 == 0 and samples == self._samples and classes not in (1, samples)

    def read(self, name: str, args: Arguments, options: Options) -> Tuple[int, ...]:
        """The shape of such a result from which this call reads a value by label; () else."""
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        known = next((each for each in tensors if id(each) in self._made), None)
        if known is None or not self._is_by_label(name, known, args, options):
            return ()
        return self._made[id(known)]

    def _is_by_label(self, name: str, value: Any, args: Arguments, options: Options) -> bool:
        samples = len(value)
        if name == "gather":
            dim = options.get("dim", args[1] if len(args) > 1 else 0)
            index = options.get("index", args[2] if len(args) > 2 else None)
            return dim in (1, -1) and index is not None and tuple(index.shape) == (samples, 1)
        if name == "__getitem__":
            numbers = args[1] if isinstance(args[1], tuple) else ()
            return len(numbers) == 2 and all(_is_number_each(e, samples) for e in numbers)
        others = [each for each in args if isinstance(each, torch.Tensor) and each is not value]
        one_hot = name.strip("_") in ("mul", "rmul") and len(others) == 1
        return one_hot and others[0].shape == value.shape and _is_one_hot(others[0])


def _is_number_each(value: Any, samples: int) -> bool:
    if not isinstance(value, torch.Tensor):
        return isinstance(value, (list, range)) and len(value) == samples
    return value.dtype == torch.int64 and tuple(value.shape) == (samples,)


def _is_one_hot(value: torch.Tensor) -> bool:
    plain = observing.plain(value).float()
    return bool(((plain == 0) | (plain == 1)).all()) and bool((plain.sum(1) == 1).all())


def is_one_row(value: torch.Tensor, target: torch.Tensor, samples: int) -> bool:
    """Whether one row, that was computed of all samples, is compared with the row of each."""
    one, each = tuple(value.shape), tuple(target.shape)
    rows = len(one) == len(each) > 1 and one[0] == 1 < each[0] == samples and one[1:] == each[1:]
    if not rows or target.requires_grad:
        return False
    nodes = (node for node, _ in zip(graphs.nodes(value.grad_fn), range(MOST_NODES)))
    return any(_reduces_samples(node, samples) for node in nodes)


def _reduces_samples(node: Any, samples: int) -> bool:
    """Whether the operation makes one row, or one value, of those of the samples."""
    if node is None or node.name() not in (*REDUCTIONS, *FLATTENING):
        return False
    whole = observing.attribute(node, "_saved_self")
    sizes = observing.attribute(node, "_saved_self_sym_sizes")
    sizes = whole.shape if isinstance(whole, torch.Tensor) else sizes
    dims = observing.attribute(node, "_saved_dim")
    dims = (dims,) if isinstance(dims, int) else dims or ()
    count = len(sizes) if sizes else 0
    if node.name() in FLATTENING:
        made: Any = observing.attribute(node, "_input_metadata") or ()
        joined = len(made) == 1 and len(made[0].shape) > 1 and made[0].shape[0] == 1
        return count > 1 and int(sizes[0]) == samples and joined
    of_first = any(dim in (0, -count, 2**64 - count) for dim in dims)
    return count > 1 and int(sizes[0]) == samples and of_first
