"""Hashes of tensors: their dtype, shape, and a sum over all of their bits."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Dict, List, Tuple

from ..foreign import Foreign
from ..parameters import local

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 2**22
"""Words of 8 bytes that are hashed at once: what the weights of a word need of the memory."""
MULTIPLIER = 0x1E3779B97F4A7C15


class Hashes:
    """Collects tensors and hashes them, with one read of each device at the end."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self._sums: Dict[Foreign, List[Tuple[List[Foreign], Foreign]]] = {}

    def add(self, tensor: Tensor) -> List[Foreign]:
        """Its dtype, shape and hash; the hash is filled in by `read`."""
        part = local(tensor)
        entry: List[Foreign] = [str(part.dtype).replace("torch.", ""), list(part.shape), 0]
        if part.numel() and not part.is_meta:
            total = self._sum(part)
            self._sums.setdefault(total.device, []).append((entry, total))
        return entry

    def read(self) -> None:
        """Wait for the devices."""
        for pairs in self._sums.values():
            values = self.torch.stack([total for _, total in pairs]).tolist()
            for (entry, _), value in zip(pairs, values):
                entry[2] = value

    def _sum(self, tensor: Tensor) -> Foreign:
        """A sum of the bits, each word multiplied by an odd number of its place."""
        torch = self.torch
        if tensor.is_sparse:
            tensor = tensor.coalesce().values()
        if tensor.layout is not torch.strided or getattr(tensor, "is_quantized", False):
            return torch.zeros((), dtype=torch.int64, device=tensor.device)
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        if flat.storage_offset() % 8:
            flat = flat.clone()
        whole = flat.numel() // 8 * 8
        total = torch.zeros((), dtype=torch.int64, device=flat.device)
        words = flat[:whole].view(torch.int64)
        for start in range(0, words.numel(), CHUNK):
            part = words[start : start + CHUNK]
            total += _mixed(torch, part, start)
        if whole < flat.numel():
            tail = torch.zeros(8, dtype=torch.uint8, device=flat.device)
            tail[: flat.numel() - whole] = flat[whole:]
            total += _mixed(torch, tail.view(torch.int64), words.numel())
        return total


def _mixed(torch: ModuleType, words: Foreign, start: int) -> Foreign:
    places = torch.arange(start, start + words.numel(), dtype=torch.int64, device=words.device)
    return ((words ^ (words >> 29)) * (places * 2 + 1) * MULTIPLIER).sum()


def hash_of(torch: ModuleType, values: Foreign) -> List[Foreign]:
    """The hashes of the tensors among some values, one level deep."""
    hashes, entries = Hashes(torch), []
    for value in values:
        parts: Foreign = value.values() if isinstance(value, dict) else [value]
        if isinstance(value, (list, tuple)):
            parts = value
        entries += [hashes.add(each) for each in parts if isinstance(each, torch.Tensor)]
    hashes.read()
    return entries
