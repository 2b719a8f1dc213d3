"""Small tensors as numbers, without ever waiting for a device.

On a CPU they are read at once. On CUDA they are copied into pinned memory on the current stream,
and read when an event recorded behind the copies is done, usually one step later. Other devices
have no such copies: values are read ten calls late in one go.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Callable, List, Optional

Deliver = Callable[[List[Any]], None]

MOST_PENDING = 64
"""Calls that may be unread; when the device is further behind, values are dropped."""
READ_EVERY = 10
SIZES = (8, 2048)
"""Elements of the pinned buffers."""
SCALARS = 256
"""Scalars of one piece of pinned memory."""
FINISH_SECONDS = 2.0
"""At the end: what has not arrived by then is not waited for."""
NO_EVENT = object()
"""The device has no events: what it computed is read after ten calls."""


class Values:
    """Delivers the values of tensors in the order of the calls.

    `pending` are the calls that were not read yet. `dropped` counts those that never were; their
    `deliver` is called with None for each tensor. `late`: tensors of the CPU, too, arrive later
    than they are asked for, as those of a GPU do (for tests on machines without one). `lost`: the
    device failed, and nothing arrives any more.
    """

    def __init__(self, torch: Any, late: bool = False) -> None:
        self.torch = torch
        self.late = late
        self.dropped = 0
        self.lost = False
        self.pending: deque[tuple[Any, list[Any], Deliver, Any]] = deque()
        self._free: dict[int, list[Any]] = {size: [] for size in SIZES}
        self._scalars: list[Any] = []
        self._polling = False
        self._copied_from: Any = None
        """The device of scalars that were copied behind the last event."""

    def put(self, tensor: Any) -> Any:
        """A scalar without a graph: a float, or a tensor of the CPU that will hold its value.

        It holds it when the next call of `submit` is delivered. None if it cannot be read.
        """
        if tensor.is_cpu and not self.late:
            return tensor.item()
        if tensor.device.type == "mps":
            self._copied_from = tensor.device
            return tensor.clone()
        if not (tensor.is_cuda or self.late):
            return None
        if self.lost or len(self.pending) >= MOST_PENDING:
            self.dropped += 1
            return None
        if not self._scalars:
            self._scalars = list(self._pinned(SCALARS).unbind())
        scalar = self._scalars.pop()
        scalar.copy_(tensor, non_blocking=True)
        self._copied_from = tensor.device
        return scalar

    def put_steady(self, tensor: Any) -> Any:
        """The same for any tensor: None if it is no scalar of a GPU, or a graph is captured."""
        if tensor.dim() or not (tensor.is_cuda or self.late):
            return None
        cuda = self.torch.cuda
        if tensor.is_cuda and cuda.is_current_stream_capturing():
            return None
        return self.put(tensor.detach())

    def submit(self, tensors: list[Any], deliver: Deliver) -> None:
        """Call `deliver` with a float or a list of floats for each tensor, now or later."""
        late = self.late or self._copied_from is not None or bool(self.pending)
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

    def _copy(self, tensors: list[Any], deliver: Deliver) -> None:
        self.poll()
        elements = sum(tensor.numel() for tensor in tensors)
        device = next((t.device for t in tensors if t.is_cuda), self._copied_from)
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
        self._copied_from = None

    def _event(self, device: Any) -> Any:
        """What is done once the copies so far are."""
        if device is None or device.type == "cpu":
            return Later() if self.late else None
        if device.type != "cuda":
            return NO_EVENT
        event = self.torch.cuda.Event()
        event.record(self.torch.cuda.current_stream(device))
        return event

    def _buffer(self, elements: int) -> Any:
        size = next(size for size in SIZES if elements <= size)
        return self._free[size].pop() if self._free[size] else self._pinned(size)

    def _pinned(self, size: int) -> Any:
        torch = self.torch
        return torch.empty(
            size,
            dtype=torch.float32,
            device="cpu",
            pin_memory=torch.cuda.is_available(),
            requires_grad=False,
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

    def _done(self, event: Any) -> bool:
        """Whether it is; after an error of the device nothing arrives any more."""
        try:
            return bool(event.query())
        except RuntimeError:
            self.lost = True
            self.dropped += len(self.pending)
            self.pending.clear()
            return False

    def number(self, value: Any) -> Optional[float]:
        """What `put` returned, once it has arrived."""
        if value is None or type(value) is float:
            return value
        return None if self.lost else float(value)

    def finish(self) -> None:
        """At the end: deliver what arrives soon."""
        if self._copied_from is not None:
            self.submit([], lambda values: None)
        until = time.monotonic() + FINISH_SECONDS
        self.poll(last=True)
        while self.pending and time.monotonic() < until:
            time.sleep(0.002)
            self.poll(last=True)


class Later:
    """An event that is done when it is asked for the second time."""

    def __init__(self) -> None:
        self._asked = False

    def query(self) -> bool:
        """Whether it is done."""
        asked, self._asked = self._asked, True
        return asked
