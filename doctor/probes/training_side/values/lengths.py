"""Lengths of the CTC loss as lists, so that a dispatch mode leaves torch's own path as it is."""

from __future__ import annotations

from typing import Optional

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types

FUNCTIONS = (torch.ctc_loss, torch.nn.functional.ctc_loss)
LENGTHS = {"input_lengths": 2, "target_lengths": 3}
"""Argument -> its position."""


class ListedLengths(TorchFunctionMode):
    """Passes lengths on the CPU to the CTC loss as lists of integers.

    While a dispatch mode is active, torch keeps tensors of lengths as they are, and then divides
    the losses of a GPU by lengths of the CPU, which raises. Without a mode it makes lists of them.
    """

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        if func in FUNCTIONS:
            positions = LENGTHS.values()
            args = [listed(x) if number in positions else x for number, x in enumerate(args)]
            options = {name: listed(x) if name in LENGTHS else x for name, x in options.items()}
        return func(*args, **options)


def listed(lengths: Foreign) -> Foreign:
    """A tensor of the CPU as a list; a GPU's would have to be waited for, and needs no list."""
    on_cpu = isinstance(lengths, torch.Tensor) and lengths.device.type == "cpu"
    return lengths.tolist() if on_cpu else lengths
