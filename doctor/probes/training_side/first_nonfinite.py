"""The operation whose result is the first that is not finite, and the samples that cause it.

Imported by torch_stages.py on demand; standard library and torch only, Python 3.9.
The step is repeated under a dispatch mode, which sees every operation, also those of the backward
pass. A value that is not finite is followed from result to result, so the operation that is named
is one that the loss, or a gradient, depends on: an unused log(0) is not blamed.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
import wire
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

inspect_inputs = wire.sibling("inspect_inputs")
lengths = wire.sibling("lengths")
subjects = wire.sibling("subjects")

TORCH = os.path.dirname(torch.__file__)
PROBES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARIES = tuple(
    os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")
)
COMPUTING = tuple(os.path.join(TORCH, name, "") for name in ("nn", "distributions"))
CALLERS = ("functional.py", "module.py", "container.py")
"""Files there that pass a call on."""
MASKING = ("masked_fill", "where", "full", "fill", "triu", "tril", "scalar_tensor", "clone", "copy",
           "_to_copy", "lift_fresh", "add", "cat", "index_put", "new_full", "scatter", "zeros_like",
           "expand", "constant_pad_nd", "masked_scatter", "topk", "detach", "repeat", "stack",
           "select_scatter", "slice_scatter", "neg", "rsub", "sub", "full_like", "baddbmm", "max",
           "amax", "view", "_unsafe_view", "mul")  # fmt: skip
"""Operations that make or pass on a mask of -inf on purpose: -inf alone is no fault of theirs."""
UNINITIALIZED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
                 "resize")  # fmt: skip
SAMPLE_SECONDS = 4.0
MAX_SAMPLES = 8
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


class Called(TorchFunctionMode):
    """The function of torch that is being called from outside of it."""

    name = ""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        self.name = getattr(func, "__name__", "")
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.name = ""


class Follow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows values that are not finite from the operation that made them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.origins: List[Operation] = []
        self.backward = False
        """Whether the backward pass has begun."""
        self.called = Called()
        self._by_storage: Dict[int, Tuple[int, torch.Tensor]] = {}
        """Address of a storage -> its origin's index, and a tensor that keeps it in memory."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        options = kwargs or {}
        origin = self._origin_of((args, options))
        result = func(*args, **options)
        name = str(func).split(".")[1] if "." in str(func) else str(func)
        for tensor in _tensors(result):
            self._record(tensor, origin, name, args, options)
        return result

    def _record(
        self, tensor: torch.Tensor, origin: Optional[int], name: str, args: Any, options: Any
    ) -> None:
        address = _address(tensor)
        if address is None:
            return
        passed_on = origin is not None and not is_finite(tensor)
        masked = not passed_on and passes_mask_on(tensor, (args, options))
        if not passed_on and (masked or not is_fault(tensor, name.rstrip("_"))):
            if name.rstrip("_") not in ("detach", "alias", "view", "slice", "select"):
                self._by_storage.pop(address, None)
            return
        if origin is None:
            if len(self.origins) >= MAX_ORIGINS:
                return
            if self.called.name in inspect_inputs.COMPOSITES:
                name = self.called.name
            origin = len(self.origins)
            self.origins.append(operation(name, tensor, args, options, self.backward))
        self._by_storage[address] = origin, tensor

    def _origin_of(self, inputs: Any) -> Optional[int]:
        """The first origin among the inputs that are not finite."""
        if not self._by_storage:
            return None
        entries = [self._by_storage.get(_address(each) or 0) for each in _tensors(inputs)]
        return min((entry[0] for entry in entries if entry is not None), default=None)

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
    floats = (each for each in _tensors(inputs) if each.is_floating_point())
    return any(
        each.layout == torch.strided and bool((each == -float("inf")).any()) for each in floats
    )


def operation(
    name: str, result: torch.Tensor, args: Any, options: Any, backward: bool
) -> Operation:
    """The operation with the line that called it and what is unusual in its inputs."""
    user, library = places()
    remarks, certain = inspect_inputs.remarks(name, result, args, options)
    return Operation(name, user[0], user[1], library, remarks, certain, backward)


def places() -> Tuple[Tuple[str, str], str]:
    """The innermost line of the user's files, and the one of a library that it called; torch
    itself counts as one where a module of it computes something, as a parametrization does."""
    frame: Any = sys._getframe(1)
    library: Optional[Any] = None
    inside: Optional[Any] = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(TORCH):
            computes = file.startswith(COMPUTING) and os.path.basename(file) not in CALLERS
            if inside is None and computes:
                inside = frame
        elif not (file.startswith((PROBES, "<")) or file == __file__):
            if not os.path.realpath(file).startswith(LIBRARIES):
                through = library or inside
                return _line(frame), "" if through is None else _line(through)[0]
            if library is None:
                library = frame
        frame = frame.f_back
    return (("", "") if library is None else _line(library)), ""


def _line(frame: Any) -> Tuple[str, str]:
    import linecache

    file, number = frame.f_code.co_filename, frame.f_lineno
    code = linecache.getline(file, number).strip()
    return "%s, line %d" % (os.path.basename(file), number), code[:120]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _address(tensor: torch.Tensor) -> Optional[int]:
    try:
        return int(tensor.untyped_storage().data_ptr()) or None
    except Exception:  # sparse and other tensors have no storage
        return None


def trace(plan: Any, stage: Any, number: int) -> Dict[str, Any]:
    """The first operation of that step whose result is not finite, as an origin; {} if unknown."""
    with stage("allocate"):
        training = plan.training(plan.build())
    for _ in range(number - 1):
        training.step(stage)
    found: Optional[Operation] = None
    started = time.perf_counter()
    with stage("operation by operation"):
        for weight in training.weights.values():
            weight.grad = None
        with Follow() as follow:
            with training.autocast(), follow.called, lengths.ListedLengths():
                loss = training.subject.loss(training.subject.module, training.subject.batch)
            forward = not _finite(loss)
            if forward:
                found = follow.origin(loss) or _first(follow)
            else:
                follow.backward = True
                (training.scaler.scale(loss) if training.scaler else loss).backward()
                found = _of_gradients(training, follow)
    if found is None:
        return {}
    record: Dict[str, Any] = dict(found._asdict(), step=number)
    wire.send(note={"trace": {"source": record}})
    if forward:
        seconds = max(SAMPLE_SECONDS, 20 * (time.perf_counter() - started))
        with stage("sample by sample"):
            record.update(samples_of(training, min(seconds, 2 * SAMPLE_SECONDS)))
    return {"source": record}


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


# The samples of the batch


def samples_of(training: Any, seconds: float) -> Dict[str, Any]:
    """{"samples": indices, "batch": their number}: each makes the loss non-finite by itself.

    The batch is cut in halves, and each half that still does it again. {} if the loss has no
    batch, or does not work on a part of it.
    """
    count = subjects.first_dimension(training.subject.batch)
    if not count or count < 2:
        return {}
    deadline, bad = time.monotonic() + seconds, []  # type: Tuple[float, List[int]]
    pending = [(0, count)]
    while pending and len(bad) < MAX_SAMPLES:
        if time.monotonic() > deadline:
            return {}
        low, high = pending.pop(0)
        if (low, high) != (0, count):
            try:
                if _finite(_loss_of_part(training, low, high)):
                    continue
            except Exception:
                return {}
        if high - low == 1:
            bad.append(low)
        else:
            middle = (low + high) // 2
            pending[:0] = [(low, middle), (middle, high)]
    return {"samples": bad, "batch": count, "more_samples": bool(pending)}


def _loss_of_part(training: Any, low: int, high: int) -> Any:
    subject = training.subject
    part = subjects.mapped(subject.batch, lambda each: each[low:high] if each.dim() else each)
    with torch.no_grad(), training.autocast():
        return subject.loss(subject.module, part)
