"""The last batches of a DataLoader: which samples, and the random state before them.

Tensors are not kept alive: what is gone when an alarm comes is reported by its shape only.
"""

from __future__ import annotations

import base64
import hashlib
import math
import weakref
from collections import deque
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, Tuple

from .epoch_orders import EpochOrders, Order
from .foreign import Foreign
from .origins import first_row
from .switch import raise_of_a_signal
from .thresholds import READ_EVERY

if TYPE_CHECKING:
    from torch import Tensor

MOST_BATCHES = 2 + READ_EVERY[-1]
"""Batches: of the steps that were not read before one that is, and one that is fetched ahead."""
MOST_LEAVES = 16
MOST_HASHED = 2**26
MOST_INDICES = 1024


Leaf = Tuple[Foreign, Foreign, Foreign, Foreign]
"""Name or position of a tensor, a weak reference to it, its shape and dtype."""


class Batches:
    """What `__next__` of a DataLoader's iterator returned."""

    def __init__(self, torch: ModuleType, orders: EpochOrders | None = None) -> None:
        self.torch = torch
        self._orders = orders
        self._order: Order | None = None
        self.fetched = 0
        self._last: deque[tuple[int, Foreign, list[Leaf], Foreign]] = deque(maxlen=MOST_BATCHES)
        self._indices: weakref.WeakKeyDictionary[Foreign, deque[Foreign]] = (
            weakref.WeakKeyDictionary()
        )
        self._iterator: Foreign = lambda: None
        self._queue: deque[Foreign] = deque()
        self._random_state = torch.default_generator.get_state

    def index_drawn(self, iterator: Foreign, indices: Foreign) -> None:
        """The sampler gave the indices of a batch, which is fetched later, in this order."""
        if self._iterator() is not iterator:
            self._iterator = weakref.ref(iterator)
            self._queue = self._indices.setdefault(iterator, deque(maxlen=1024))
            self._order = self._orders.of(iterator) if self._orders is not None else None
        self._queue.append(indices)
        if self._order is not None:
            self._order.drawn(iterator, indices)

    def batch_fetched(self, iterator: Foreign, data: Foreign) -> None:
        """The iterator returned a batch."""
        queue = self._queue if self._iterator() is iterator else self._indices.get(iterator)
        kind, tensor = type(data), self.torch.Tensor
        pairs = enumerate(data) if kind is list or kind is tuple else ()
        pairs = data.items() if kind is dict else pairs
        leaves: list[Leaf] = []
        for name, value in pairs:
            if type(value) is not tensor or len(leaves) == MOST_LEAVES:
                leaves = []
                break
            leaves.append((name, weakref.ref(value), value.shape, value.dtype))
        if not leaves:
            leaves = self._leaves(data)
        indices = queue.popleft() if queue else None
        self._last.append((self.fetched, indices, leaves, self._random_state()))
        self.fetched += 1

    def _leaves(self, data: Foreign) -> list[Leaf]:
        """Those of another container; none of one that raises."""
        try:
            return [(n, weakref.ref(t), t.shape, t.dtype) for n, t in self.tensors(data)]
        except Exception as error:
            raise_of_a_signal(error)
            return []

    def tensors(self, data: Foreign, name: str = "") -> Iterator[tuple[str, Foreign]]:
        """Names and tensors of a tensor, a mapping or a sequence, two levels deep."""
        if isinstance(data, self.torch.Tensor):
            yield name or "batch", data
        elif hasattr(data, "items") and name.count(".") < 2:
            for key, value in list(data.items())[:MOST_LEAVES]:
                yield from self.tensors(value, f"{name}.{key}" if name else str(key))
        elif isinstance(data, (list, tuple)) and name.count(".") < 2:
            for key, value in enumerate(data[:MOST_LEAVES]):
                yield from self.tensors(value, f"{name}.{key}" if name else str(key))

    def elements(self) -> int:
        """Elements of the first tensor of the last batch; 0 without one."""
        leaves = self._last[-1][2] if self._last else ()
        return math.prod(leaves[0][2]) if leaves else 0

    def describe(self) -> list[dict[str, object]]:
        """The last batches, oldest first, as JSON."""
        return [self._describe(batch) for batch in self._last]

    def _describe(self, batch: tuple[int, Foreign, list[Leaf], Foreign]) -> dict[str, object]:
        number, indices, leaves, random_state = batch
        tensors = {}
        for name, reference, shape, dtype in leaves:
            tensor = reference()
            about: dict[str, object] = {"shape": list(shape), "dtype": str(dtype)}
            if tensor is not None:
                about.update(self._content(tensor))
            tensors[str(name)] = about
        return {
            "batch": number,
            "indices": _indices(indices),
            "tensors": tensors,
            "torch_rng": base64.b64encode(bytes(random_state.tolist())).decode(),
        }

    def _content(self, tensor: Tensor) -> dict[str, object]:
        about: dict[str, object] = {}
        if tensor.is_floating_point() and tensor.numel():
            about["finite"] = math.isfinite(float(tensor.detach().float().abs().max()))
        if tensor.device.type == "cpu" and 0 < tensor.nbytes <= MOST_HASHED:
            about["sha256"] = content_hash(self.torch, tensor)
        return about

    def non_finite(self) -> str:
        """The name of a tensor of the last batches with NaN or Inf, and where, "" for none."""
        for _, indices, leaves, _ in self._last:
            for name, reference, _, _ in leaves:
                tensor = reference()
                if tensor is not None and self._content(tensor).get("finite") is False:
                    return f"{name}{_row(tensor, indices)}"
        return ""


def _row(tensor: Tensor, indices: Foreign) -> str:
    """The first row that is not finite, and the index of its sample in the dataset."""
    row = first_row(~tensor.detach().float().isfinite())
    count = tensor.shape[0] if tensor.dim() else 1
    known = isinstance(indices, (list, tuple)) and len(indices) == count
    return f", row {row}" + (f", sample {indices[row]} of the dataset" if known else "")


def _indices(indices: Foreign) -> Foreign:
    """Sampler indices as JSON, shortened."""
    if isinstance(indices, (list, tuple)):
        return [
            item if isinstance(item, (int, str)) else str(item) for item in indices[:MOST_INDICES]
        ]
    return None if indices is None else str(indices)[:200]


def content_hash(torch: ModuleType, tensor: Tensor) -> str:
    """Of the bytes of a tensor on the CPU, 16 digits."""
    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(_raw(raw)).hexdigest()[:16]


def _raw(tensor: Tensor) -> bytes:
    """The bytes of a tensor of uint8, with numpy or without."""
    try:
        return bytes(tensor.numpy().tobytes())
    except (RuntimeError, TypeError):
        return bytes(tensor.tolist())
