"""Sequences that pad_sequence returns with their length first, and that a layer with
batch_first=True reads as samples.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Tuple

import torch

from ..foreign import Arguments, Foreign, Options, places
from ..values.value_origins import tensors
from . import norm_calls

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
REORDERING = ("transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "t", "adjoint",
              "get", "einsum", "tensordot", "view", "reshape", "flatten", "unflatten", "resize",
              "as_strided", "rearrange")  # fmt: skip
"""Functions after which another dimension may come first; "get" is that of .T, .mT and .data."""
KEEPING = ("add", "radd", "sub", "rsub", "mul", "rmul", "div", "truediv", "neg", "linear",
           "embedding", "layer_norm", "rms_norm", "dropout", "relu", "leaky_relu", "elu", "gelu",
           "silu", "mish", "softplus", "tanh", "sigmoid", "softmax", "clamp", "where",
           "masked_fill", "normalize", "to", "float", "half", "bfloat16", "double", "long", "int",
           "cuda", "cpu", "type", "type_as", "contiguous", "clone", "detach", "requires_grad",
           *RECURRENT)  # fmt: skip
"""Functions whose result has the first two dimensions of their input, in their order."""


class LengthFirst:
    """Follows padded sequences from function to function as long as two dimensions stay."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._padded: Dict[int, Tuple[Any, str]] = {}
        """Id of a tensor -> a weak reference, and the line that padded it."""
        self.readers: List[str] = []
        """ "1 (LSTM) reads pad_sequence in train.py, line 12"."""

    def note(self, name: str, args: Arguments, options: Options, result: Foreign) -> None:
        """A call of a function of torch."""
        if name == "pad_sequence":
            if not options.get("batch_first", (*args, False)[1]):
                self._mark(result, places.innermost()[0][0])
            return
        if not self._padded:
            return
        for each in tensors((args, options)):
            reference, line = self._padded.get(id(each), (None, ""))
            if reference is None or reference() is not each:
                continue
            self._read(name, line)
            self._pass_on(name.strip("_"), each, result, line)

    def _read(self, name: str, line: str) -> None:
        module = norm_calls.running()
        attends = isinstance(module, torch.nn.MultiheadAttention) and name == "transpose"
        if (name in RECURRENT or attends) and getattr(module, "batch_first", False):
            reader = norm_calls.calling_module(self._model) or name
            text = "%s reads pad_sequence%s" % (reader, " in %s" % line if line else "")
            self.readers += [text] * (text not in self.readers)

    def _pass_on(self, name: str, source: torch.Tensor, result: Foreign, line: str) -> None:
        """Follow the result of a function of this name, without its underscores, as far as its
        dimensions are known: sizes that are equal do not show an exchange."""
        results = list(tensors(result))
        if name in REORDERING:
            if any(each is source for each in results):
                del self._padded[id(source)]
            return
        if name not in KEEPING and source.shape[0] == source.shape[1]:
            return
        for each in results:
            if each.dim() >= 2 and each.shape[:2] == source.shape[:2]:
                self._mark(each, line)

    def _mark(self, tensor: torch.Tensor, line: str) -> None:
        self._padded[id(tensor)] = weakref.ref(tensor), line
