"""Values that are not finite, followed from the operation that made them to those that read them.

A dispatch mode sees every operation of a step, also those of the backward pass. A value that is not
finite is followed from result to result, so the operation that is named is one that the loss, or a
gradient, depends on: an unused log(0) is not blamed.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from ..foreign import Arguments, Foreign, Function, Options, Types, observing, places
from ..foreign.observing import storage_address
from . import function_inputs, inspect_inputs, value_origins
from .value_origins import tensors

MASKING = ("masked_fill", "where", "full", "fill", "triu", "tril", "scalar_tensor", "clone", "copy",
           "log", "logsumexp", "_to_copy", "lift_fresh", "add", "cat", "index_put", "new_full",
           "scatter", "zeros_like", "expand", "constant_pad_nd", "masked_scatter", "topk", "detach",
           "repeat", "stack", "select_scatter", "slice_scatter", "neg", "rsub", "sub", "full_like",
           "baddbmm", "max", "amax", "view", "_unsafe_view", "mul")  # fmt: skip
"""Operations that make or pass on a mask of -inf on purpose: -inf alone is no fault of theirs."""
EMPTIED = ("logsumexp",)
"""Operations whose result is -inf where everything is masked."""
UNINITIALIZED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
                 "resize")  # fmt: skip
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "mkldnn_rnn_layer", "linear")
"""Operations whose largest results are recorded, to see values that grow."""
FEWEST_PRODUCTS, GROWTH = 4, 1e6
MAX_ORIGINS = 1000


class Operation(NamedTuple):
    """One operation with a non-finite result of finite inputs."""

    name: str
    """As in torch: "log", "native_layer_norm"."""
    place: str
    """The user's line: "train.py, line 12"; "" if no line of Python called it."""
    code: str
    library: str
    """The line of a library below the user's, "" if the user's line called torch itself."""
    remarks: List[str]
    """What is unusual in its inputs: "1 of 4 values of the divisor are 0"."""
    certain: bool
    """The operation is not defined for such inputs."""
    backward: bool
    """It belongs to the backward pass."""
    function: str = ""
    """The function of torch.nn.functional whose arguments explain the result."""
    module: str = ""
    """The module of torch that called it: "2 (Softmax)"."""
    made_by: str = ""
    """The function that made the values that explain the result: "relu"."""
    made_of: str = ""
    """The same with what they were computed from: "the result of norm of the parameter proto"."""
    state: str = ""
    """The buffer, or tensor held by a module, that carries the values to the next step."""


class Follow(observing.DispatchMode):
    """Follows values that are not finite from the operation that made them."""

    def __init__(self, called: Any, modules: Any) -> None:
        super().__init__()
        self.origins: List[Operation] = []
        self.backward = False
        """Whether the backward pass has begun."""
        self._called, self._modules = called, modules
        self._by_storage: Dict[int, Tuple[int, torch.Tensor]] = {}
        """Address of a storage -> its origin's index, and a tensor that keeps it in memory."""
        self._masks: Dict[int, Tuple[Operation, torch.Tensor]] = {}
        """Address of a storage that holds -inf on purpose -> the operation that explains it."""
        self._products: List[float] = []

    def __torch_dispatch__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        origin = self._origin_of((args, options))
        name = str(func).split(".")[1] if "." in str(func) else str(func)
        before = args
        if name.endswith("_") and name.rstrip("_") in inspect_inputs.RULES:
            before = (args[0].detach().clone(), *args[1:])  # the result takes its place
        result = func(*args, **options)
        for tensor in tensors(result):
            self._record(tensor, origin, name, before, options)
        return result

    def _record(
        self,
        tensor: torch.Tensor,
        origin: Optional[int],
        name: str,
        args: Arguments,
        options: Foreign,
    ) -> None:
        address = storage_address(tensor)
        if not address:
            return
        if name in PRODUCTS and not self.backward and tensor.numel():
            self._products.append(float(tensor.detach().abs().max()))
        passed_on = origin is not None and not is_finite(tensor)
        masked = not passed_on and passes_mask_on(tensor, (args, options))
        if not passed_on and (masked or not is_fault(tensor, name.rstrip("_"))):
            if name.rstrip("_") not in ("detach", "alias", "view", "slice", "select"):
                self._by_storage.pop(address, None)
            self._note_mask(address, tensor, masked, name, args, options)
            return
        if origin is None:
            if len(self.origins) >= MAX_ORIGINS:
                return
            if self._called.name in inspect_inputs.COMPOSITES:
                name = self._called.name
            origin = len(self.origins)
            self.origins.append(self._explained(name, tensor, args, options))
        self._by_storage[address] = origin, tensor

    def _note_mask(
        self,
        address: int,
        tensor: torch.Tensor,
        passed_on: bool,
        name: str,
        args: Arguments,
        options: Foreign,
    ) -> None:
        """Remember what explains a result with -inf that is no fault by itself: the first operation
        that made it, or a later one that found nothing but -inf."""
        known = self._mask_of((args, options))
        self._masks.pop(address, None)
        if is_finite(tensor) or name in UNINITIALIZED or self.backward:
            return
        emptied = name in EMPTIED and inspect_inputs.remarks(name, tensor, args, options)[1]
        if known is None or (emptied and not known.certain):
            known = self._operation(name, tensor, args, options)
        self._masks[address] = known, tensor

    def _explained(
        self, name: str, tensor: torch.Tensor, args: Arguments, options: Foreign
    ) -> Operation:
        """The operation; or, if its inputs hold -inf, the one that made them where nothing was left
        to select."""
        operation = self._operation(name, tensor, args, options)
        mask = self._mask_of((args, options))
        if mask is None or any("-inf throughout" in each for each in operation.remarks):
            return operation
        if mask.certain:
            return mask
        if operation.certain:
            return operation
        origin = "the result of %s in %s" % (mask.name.strip("_"), mask.place or "the loss")
        return operation._replace(made_by=mask.name.strip("_"), made_of=origin)

    def _operation(
        self, name: str, result: torch.Tensor, args: Arguments, options: Foreign
    ) -> Operation:
        """The operation with the line that called it and what is unusual in its inputs."""
        user, library = places.innermost(self.backward)
        remarks, certain = inspect_inputs.remarks(name, result, args, options)
        called, inner = self._called, inspect_inputs.culprit(name, args, remarks)
        outer: Tuple[List[str], bool] = [], False
        if not certain and called.name:
            outer = function_inputs.remarks(called)
            remarks, certain = outer if outer[0] else (remarks, certain)
        if any("holds up to" in each for each in remarks):
            remarks = remarks + self._growth()
        origin = None
        if remarks and called.name and inner is not None:
            outside = called.outer(inner)
            origin = None if outside is None else called.of(outside)
        return Operation(
            name, user[0], user[1], library, remarks, certain, self.backward,
            function=called.public() if outer[0] else "",
            module="" if self.backward else self._modules.current,
            made_by=origin.function if origin else "",
            made_of=value_origins.described(origin, user[0]),
        )  # fmt: skip

    def _growth(self) -> List[str]:
        """How the largest results of the matrix products grew up to an overflow."""
        finite = [each for each in self._products if each - each == 0.0]
        if len(finite) < FEWEST_PRODUCTS or finite[-1] < GROWTH * max(finite[0], 1e-30):
            return []
        text = "the largest values of the %d matrix products before it grow from %.3g to %.3g"
        return [text % (len(finite), finite[0], finite[-1])]

    def _origin_of(self, inputs: Foreign) -> Optional[int]:
        """The first origin among the inputs that are not finite."""
        if not self._by_storage:
            return None
        entries = [self._by_storage.get(storage_address(each)) for each in tensors(inputs)]
        return min((entry[0] for entry in entries if entry is not None), default=None)

    def _mask_of(self, inputs: Foreign) -> Optional[Operation]:
        """What explains the -inf in the inputs."""
        entries = [self._masks.get(storage_address(each)) for each in tensors(inputs)]
        return next((entry[0] for entry in entries if entry is not None), None)

    def mask(self, tensor: torch.Tensor) -> Optional[Operation]:
        """The operation that wrote the -inf that this value is."""
        return self._mask_of((tensor,))

    def origin(self, tensor: Optional[torch.Tensor]) -> Optional[Operation]:
        """The operation that this value depends on, None if none was recorded."""
        entry = None if tensor is None else self._by_storage.get(storage_address(tensor))
        return None if entry is None else self.origins[entry[0]]


def is_finite(tensor: torch.Tensor) -> bool:
    floating = tensor.is_floating_point() or tensor.is_complex()
    if not floating or not tensor.numel() or tensor.layout != torch.strided:
        return True
    return bool(torch.isfinite(tensor).all())


def is_fault(tensor: torch.Tensor, name: str) -> bool:
    """Whether a result has values that are not finite, and is no mask and no fresh memory."""
    if name in UNINITIALIZED or is_finite(tensor):
        return False
    if name not in MASKING or tensor.is_complex():
        return True
    return bool(torch.isnan(tensor).any()) or bool((tensor == float("inf")).any())


def passes_mask_on(tensor: torch.Tensor, inputs: Foreign) -> bool:
    """Whether a result holds -inf only, and an input does too: a mask that is passed on."""
    if is_finite(tensor) or tensor.is_complex():
        return False
    if bool(torch.isnan(tensor).any()) or bool((tensor == float("inf")).any()):
        return False
    floats = (each for each in tensors(inputs) if each.is_floating_point())
    return any(
        each.layout == torch.strided and bool((each == -float("inf")).any()) for each in floats
    )
