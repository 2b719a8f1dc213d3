"""Small tensors as numbers, without ever waiting for a device.

On a CPU they are read at once. On CUDA they are copied into pinned memory on the current stream,
and read when an event recorded behind the copy is done, usually one step later. Other devices have
no such copies: values are read ten calls late in one go.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, List

Deliver = Callable[[List[Any]], None]

MOST_PENDING = 64
"""Calls that may be unread; when the device is further behind, values are dropped."""
READ_EVERY = 10
SIZES = (8, 2048)
"""Elements of the pinned buffers."""


class Values:
    """Delivers the values of tensors in the order of the calls.

    `pending` are the calls that were not read yet. `dropped` counts those that never were; their
    `deliver` is called with None for each tensor.
    """

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.dropped = 0
        self.pending: deque[tuple[Any, list[Any], Deliver, Any]] = deque()
        self._free: dict[int, list[Any]] = {size: [] for size in SIZES}

    def submit(self, tensors: list[Any], deliver: Deliver) -> None:
        """Call `deliver` with a float or a list of floats for each tensor, now or later."""
        if not self.pending and all([tensor.is_cpu for tensor in tensors]):
            deliver([tensor.tolist() for tensor in tensors])
            return
        kinds = {tensor.device.type for tensor in tensors}
        if kinds <= {"cpu", "cuda"}:
            self._copy(tensors, deliver)
        elif kinds <= {"cpu", "mps"}:
            self.pending.append((None, [t.clone() for t in tensors], deliver, None))
            if len(self.pending) >= READ_EVERY:
                self.finish()
        else:
            self._drop(len(tensors), deliver)

    def _drop(self, count: int, deliver: Deliver) -> None:
        self.dropped += 1
        deliver([None] * count)

    def _copy(self, tensors: list[Any], deliver: Deliver) -> None:
        self.poll()
        elements = sum(tensor.numel() for tensor in tensors)
        if len(self.pending) >= MOST_PENDING or elements > SIZES[-1]:
            self._drop(len(tensors), deliver)
            return
        buffer = self._buffer(elements)
        slots, begin, event = [], 0, None
        for tensor in tensors:
            slot = buffer[begin : begin + tensor.numel()].view(tensor.shape)
            slot.copy_(tensor, non_blocking=True)
            slots.append(slot)
            begin += tensor.numel()
            event = tensor.device if tensor.is_cuda else event
        if event is not None:
            device, event = event, self.torch.cuda.Event()
            event.record(self.torch.cuda.current_stream(device))
        self.pending.append((event, slots, deliver, buffer))

    def _buffer(self, elements: int) -> Any:
        size = next(size for size in SIZES if elements <= size)
        if self._free[size]:
            return self._free[size].pop()
        pinned = self.torch.cuda.is_available()
        return self.torch.empty(
            size, dtype=self.torch.float32, device="cpu", pin_memory=pinned, requires_grad=False
        )

    def poll(self) -> None:
        """Deliver what has arrived."""
        while self.pending:
            event, slots, deliver, buffer = self.pending[0]
            if event is not None and not event.query():
                return
            self.pending.popleft()
            values = [slot.tolist() for slot in slots]
            if buffer is not None:
                self._free[buffer.numel()].append(buffer)
            deliver(values)

    finish = poll
    """At the end: what has not arrived by then is not waited for."""
