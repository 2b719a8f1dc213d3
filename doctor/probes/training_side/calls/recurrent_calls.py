"""Recurrent layers that run for one step from a state of 0: the weights of the state are multiplied
by it, so that their gradient is 0.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, List, NamedTuple, Sequence, Set

import torch

from ..foreign import Arguments, Foreign

CELLS = ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
OF_STATE = "weight_hh"
"""Part of the names of the weights that multiply the state."""


class Call(NamedTuple):
    """A call of a recurrent layer or of one of its cells."""

    state: torch.Tensor
    """The initial one, of an LSTM without that of its cell."""
    steps: int
    weights: Sequence[Any]


class RecurrentCalls:
    """The parameters of recurrent layers, with how their layers were called in a step."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._calls: Counter[str] = Counter()
        self._others: Set[str] = set()
        """Parameters of a call over more steps, or from another state."""

    def note(self, name: str, args: Arguments) -> None:
        """A call of the function of that name, if it is one of a recurrent layer."""
        if name not in CELLS and name not in LAYERS:
            return
        try:
            call = of_cell(args) if name in CELLS else of_layer(args)
            single = call.steps == 1 and not bool(call.state.any())
        except Exception:  # called otherwise than torch.nn does
            return
        used = {id(each) for each in call.weights}
        weights = [
            name
            for name, each in self._model.named_parameters()
            if id(each) in used and name.rpartition(".")[2].startswith(OF_STATE)
        ]
        self._calls.update(weights)
        self._others.update(() if single else weights)

    def single(self) -> List[str]:
        """The weights of the state of layers that were called once, for one step from a state of 0.
        A layer that is called again from 0 forgets the steps before."""
        return [n for n, count in self._calls.items() if count == 1 and n not in self._others]


def of_cell(args: Arguments) -> Call:
    return Call(first(args[1]), 1, args[2:])


def of_layer(args: Arguments) -> Call:
    """Of (input, state, weights, ..., batch_first), or with the batch sizes of a packed sequence
    after the input and without batch_first."""
    packed = isinstance(args[3], (list, tuple))
    state, weights = args[2:4] if packed else args[1:3]
    steps = len(args[1]) if packed else args[0].shape[1 if args[-1] else 0]
    return Call(first(state), int(steps), weights)


def first(state: Foreign) -> torch.Tensor:
    tensor: torch.Tensor = state[0] if isinstance(state, (list, tuple)) else state
    return tensor
