"""Small tensors as numbers, without ever waiting for a device.

On a CPU they are read at once. On CUDA they are copied into pinned memory on the current stream,
and read when an event recorded behind the copies is done, usually one step later. Scalars are held
until many are copied in one go: an operation for each would cost more than all else. Other devices
have no such copies: values are read ten calls late in one go.
"""

from __future__ import annotations

import time
from collections import deque
from types import ModuleType
from typing import TYPE_CHECKING, Callable, List, Optional, Union

from .foreign import Foreign

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Deliver = Callable[[List[Foreign]], None]

MOST_PENDING = 64
"""Calls that may be unread; when the device is further behind, values are dropped."""
READ_EVERY = 10
SIZES = (8, 2048)
"""Elements of the pinned buffers."""
MOST_HELD = 4096
"""Bytes of memory that a scalar may hold."""
FINISH_SECONDS = 2.0
"""At the end: what has not arrived by then is not waited for."""
NO_EVENT = object()
"""The device has no events: what it computed is read after ten calls."""


def unless_lost(action: Callable[..., None], *arguments: Foreign) -> Deliver:
    """What calls action(*arguments, *values), unless a value was lost."""

    def deliver(values: list[Foreign]) -> None:
        if None not in values:
            action(*arguments, *values)

    return deliver


class Scalar:
    """A scalar of a GPU: `value` is None until it has arrived, or if it is lost.

    `version` is the tensor's when it was held: after an operation in place it is another number.
    """

    __slots__ = ("tensor", "value", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Optional[Tensor] = tensor
        self.version = tensor._version
        self.value: Optional[float] = None


Value = Union[float, Scalar]


class Values:
    """Delivers the values of tensors in the order of the calls.

    `pending` are the calls that were not read yet. `dropped` counts those that never were; their
    `deliver` is called with None for each tensor. `late`: tensors of the CPU, too, arrive later
    than they are asked for, as those of a GPU do (for tests on machines without one). `lost`: the
    device failed, and nothing arrives any more.
    """

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.late = False
        self.dropped = 0
        self.lost = False
        self.pending: deque[tuple[Foreign, list[Foreign], Deliver, Foreign]] = deque()
        self._free: dict[int, list[Foreign]] = {size: [] for size in SIZES}
        self._polling = False
        self._copies = False
        """Scalars that are held change: they are copied at once."""

    def hold(self, tensor: Tensor) -> Optional[Value]:
        """A scalar without a graph, to be read: at once, or by `fetch`. None if it cannot be."""
        if tensor.is_cpu and not self.late:
            value: float = tensor.item()
            return value
        if not (tensor.is_cuda or tensor.device.type == "mps" or self.late):
            return None
        return self._held(tensor)

    def hold_steady(self, tensor: Tensor) -> Optional[Scalar]:
        """The same for any tensor: None if it is no scalar of a GPU, or a graph is captured."""
        if tensor.dim() or not (tensor.is_cuda or self.late):
            return None
        if tensor.is_cuda and self.torch.cuda.is_current_stream_capturing():
            return None
        return self._held(tensor.detach())

    def _held(self, tensor: Tensor) -> Scalar:
        try:  # a part of a larger tensor would hold all of its memory
            part = tensor.untyped_storage().nbytes() > MOST_HELD
        except (NotImplementedError, RuntimeError):  # a subclass without memory of its own
            part = True
        return Scalar(tensor.clone() if part or self._copies else tensor)

    def fetch(self, scalars: list[Scalar]) -> None:
        """Read them; they have their values when the next call of `submit` is delivered."""
        held = [s for s in scalars if s.tensor is not None and s.tensor._version == s.version]
        for begin in range(0, len(held), SIZES[-1]):
            self._fetch(held[begin : begin + SIZES[-1]])

    def _fetch(self, held: list[Scalar]) -> None:
        def deliver(values: list[Foreign]) -> None:
            numbers = values[0] or [None] * len(held)
            for scalar, number in zip(held, numbers):
                scalar.value, scalar.tensor = number, None

        try:
            stacked = self.torch.stack([scalar.tensor for scalar in held])
        except RuntimeError:  # on several devices, or of a CUDA graph that has run again since
            self._copies = True
            self.dropped += 1
            return
        self.submit([stacked], deliver)

    @staticmethod
    def number(value: Optional[Value]) -> Optional[float]:
        """What `hold` returned, once it has arrived; None if it is lost."""
        return value.value if isinstance(value, Scalar) else value

    def submit(self, tensors: list[Tensor], deliver: Deliver) -> None:
        """Call `deliver` with a float or a list of floats for each tensor, now or later."""
        late = bool(self.pending) or (self.late and bool(tensors))
        if not late and all([tensor.is_cpu for tensor in tensors]):
            deliver([tensor.tolist() for tensor in tensors])
            return
        kinds = {tensor.device.type for tensor in tensors}
        if self.lost:
            self._drop(len(tensors), deliver)
        elif kinds <= {"cpu", "cuda"}:
            self._copy(tensors, deliver)
        elif kinds <= {"cpu", "mps"}:
            self.pending.append((NO_EVENT, [t.clone() for t in tensors], deliver, None))
            self.poll()
        else:
            self._drop(len(tensors), deliver)

    def _drop(self, count: int, deliver: Deliver) -> None:
        self.dropped += 1
        deliver([None] * count)

    def _copy(self, tensors: list[Tensor], deliver: Deliver) -> None:
        self.poll()
        elements = sum(tensor.numel() for tensor in tensors)
        device = next((t.device for t in tensors if t.is_cuda), None)
        slots, begin, buffer = [], 0, None
        if len(self.pending) >= MOST_PENDING or elements > SIZES[-1]:
            self.dropped += 1
            slots = [None] * len(tensors)
        elif tensors:
            buffer = self._buffer(elements)
            for tensor in tensors:
                slot = buffer[begin : begin + tensor.numel()].view(tensor.shape)
                slot.copy_(tensor, non_blocking=True)
                slots.append(slot)
                begin += tensor.numel()
        self.pending.append((self._event(device), slots, deliver, buffer))

    def _event(self, device: torch.device | None) -> Foreign:
        """What is done once the copies so far are."""
        if device is None:
            return Later() if self.late else None
        event = self.torch.cuda.Event()
        event.record(self.torch.cuda.current_stream(device))
        return event

    def _buffer(self, elements: int) -> Foreign:
        size = next(size for size in SIZES if elements <= size)
        if self._free[size]:
            return self._free[size].pop()
        pinned = self.torch.cuda.is_available()
        return self.torch.empty(
            size, dtype=self.torch.float32, device="cpu", pin_memory=pinned, requires_grad=False
        )

    def poll(self, last: bool = False) -> None:
        """Deliver what has arrived; `last`: also what has no event."""
        if self._polling:
            return  # a call that is being delivered comes before those after it
        self._polling = True
        try:
            self._deliver(last)
        finally:
            self._polling = False

    def _deliver(self, last: bool) -> None:
        while self.pending:
            event, slots, deliver, buffer = self.pending[0]
            if event is NO_EVENT:
                if len(self.pending) < READ_EVERY and not last:
                    return
            elif event is not None and not self._done(event):
                return
            self.pending.popleft()
            values = [None if slot is None else slot.tolist() for slot in slots]
            if buffer is not None:
                self._free[buffer.numel()].append(buffer)
            deliver(values)

    def _done(self, event: Foreign) -> bool:
        """Whether it is; after an error of the device nothing arrives any more."""
        try:
            return bool(event.query())
        except RuntimeError:
            self.lost = True
            self.dropped += len(self.pending)
            self.pending.clear()
            return False

    def finish(self) -> None:
        """At the end: deliver what arrives soon."""
        until = time.monotonic() + FINISH_SECONDS
        self.poll(last=True)
        while self.pending and time.monotonic() < until:
            time.sleep(0.002)
            self.poll(last=True)


class Later:
    """An event that is done when it is asked for the second time."""

    def __init__(self) -> None:
        self._done = False

    def query(self) -> bool:
        """Whether it is done."""
        done, self._done = self._done, True
        return done
