"""The operation whose result is the first that is not finite, and the samples that cause it.

Imported by torch_stages.py on demand; standard library and torch only, Python 3.9.
The step is repeated under a dispatch mode, which sees every operation, also those of the backward
pass. A value that is not finite is followed from result to result, so the operation that is named
is one that the loss, or a gradient, depends on: an unused log(0) is not blamed.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import wire
from torch.utils._python_dispatch import TorchDispatchMode

inspect_inputs = wire.sibling("inspect_inputs")
function_inputs = wire.sibling("function_inputs")
lengths = wire.sibling("lengths")
module_states = wire.sibling("module_states")
places = wire.sibling("places")
value_origins = wire.sibling("value_origins")
watched_modules = wire.sibling("watched_modules")

tensors = value_origins.tensors

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
SAMPLE_SECONDS = 4.0
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


class Follow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows values that are not finite from the operation that made them."""

    def __init__(self, called: Any, modules: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
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
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
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
        self, tensor: torch.Tensor, origin: Optional[int], name: str, args: Any, options: Any
    ) -> None:
        address = _address(tensor)
        if address is None:
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
        args: Any,
        options: Any,
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

    def _explained(self, name: str, tensor: torch.Tensor, args: Any, options: Any) -> Operation:
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

    def _operation(self, name: str, result: torch.Tensor, args: Any, options: Any) -> Operation:
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

    def _origin_of(self, inputs: Any) -> Optional[int]:
        """The first origin among the inputs that are not finite."""
        if not self._by_storage:
            return None
        entries = [self._by_storage.get(_address(each) or 0) for each in tensors(inputs)]
        return min((entry[0] for entry in entries if entry is not None), default=None)

    def _mask_of(self, inputs: Any) -> Optional[Operation]:
        """What explains the -inf in the inputs."""
        entries = [self._masks.get(_address(each) or 0) for each in tensors(inputs)]
        return next((entry[0] for entry in entries if entry is not None), None)

    def mask(self, tensor: torch.Tensor) -> Optional[Operation]:
        """The operation that wrote the -inf that this value is."""
        return self._mask_of((tensor,))

    def origin(self, tensor: Optional[torch.Tensor]) -> Optional[Operation]:
        """The operation that this value depends on, None if none was recorded."""
        entry = None if tensor is None else self._by_storage.get(_address(tensor) or 0)
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


def passes_mask_on(tensor: torch.Tensor, inputs: Any) -> bool:
    """Whether a result holds -inf only, and an input does too: a mask that is passed on."""
    if is_finite(tensor) or tensor.is_complex():
        return False
    if bool(torch.isnan(tensor).any()) or bool((tensor == float("inf")).any()):
        return False
    floats = (each for each in tensors(inputs) if each.is_floating_point())
    return any(
        each.layout == torch.strided and bool((each == -float("inf")).any()) for each in floats
    )


def _address(tensor: torch.Tensor) -> Optional[int]:
    try:
        return int(tensor.untyped_storage().data_ptr()) or None
    except Exception:  # sparse and other tensors have no storage
        return None


def trace(plan: Any, stage: Any, number: int) -> Dict[str, Any]:
    """The first operation of that step whose result is not finite, as an origin; {} if unknown.

    If a module holds a value that an earlier step made so, it is the operation of that step."""
    training = started(plan, stage)
    initial = module_states.nonfinite(training.subject.module)
    for step in range(1, number):
        training.step(stage)
        if states := spoiled(training, initial):
            if record := of_state(plan, stage, step, states[0]):
                return {"source": record}
            training = started(plan, stage, number - 1)
            break
    return of_step(training, stage, number, initial)


def started(plan: Any, stage: Any, steps: int = 0) -> Any:
    """A fresh training after that many steps."""
    with stage("allocate"):
        training = plan.training(plan.build())
    for _ in range(steps):
        training.step(stage)
    return training


def spoiled(training: Any, initial: Sequence[str]) -> List[str]:
    """The states of modules that are not finite now and were at the start."""
    return [n for n in module_states.nonfinite(training.subject.module) if n not in initial]


def of_state(plan: Any, stage: Any, step: int, name: str) -> Dict[str, Any]:
    """The operation of that step whose result a module holds for the next one; {} if unknown."""
    training = started(plan, stage, step - 1)
    follow, _ = followed(training, stage)
    source = follow.origin(module_states.of_module(training.subject.module).get(name))
    return {} if source is None else dict(source._asdict(), step=step, state=name)


def of_step(training: Any, stage: Any, number: int, initial: Sequence[str]) -> Dict[str, Any]:
    """The operation that makes the loss, or a gradient, of this step non-finite, with samples."""
    begun = time.perf_counter()
    follow, loss = followed(training, stage)
    forward = not _finite(loss)
    source = _of_gradients(training, follow)
    if forward:
        source = follow.origin(loss) or _first(follow) or follow.mask(loss)
    if source is None:
        return {}
    record: Dict[str, Any] = dict(source._asdict(), step=number)
    wire.send(note={"trace": {"source": record}})
    if forward and not spoiled(training, initial):
        seconds = max(SAMPLE_SECONDS, 20 * (time.perf_counter() - begun))
        with stage("sample by sample"):
            samples = wire.sibling("batch_samples").samples_of
            record.update(samples(training, min(seconds, 2 * SAMPLE_SECONDS)))
    return {"source": record}


def followed(training: Any, stage: Any) -> Tuple[Follow, torch.Tensor]:
    """The values of one step, and its loss; the backward pass runs if the loss is finite."""
    subject = training.subject
    called = value_origins.Called(subject.module, subject.batch)
    with stage("operation by operation"):
        for weight in training.weights.values():
            weight.grad = None
        with watched_modules.Modules(subject.module) as modules, Follow(called, modules) as follow:
            with training.autocast(), called, lengths.ListedLengths():
                loss = subject.loss(subject.module, subject.batch)
            if _finite(loss):
                follow.backward = True
                (training.scaler.scale(loss) if training.scaler else loss).backward()
    return follow, loss


def _first(follow: Follow) -> Optional[Operation]:
    """The only operation with such a result; of several, none is blamed."""
    return follow.origins[0] if len(follow.origins) == 1 else None


def _of_gradients(training: Any, follow: Follow) -> Optional[Operation]:
    for weight in training.weights.values():
        if weight.grad is not None and not _finite(weight.grad):
            return follow.origin(weight.grad)
    return None


def _finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor.detach()).all())
