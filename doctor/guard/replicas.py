"""Checksums of the parameters that DistributedDataParallel keeps equal on all ranks.

Each rank records its own: no collective is called, and the report compares them.
"""

from __future__ import annotations

import gc
import re
from types import ModuleType
from typing import TYPE_CHECKING

from .foreign import Foreign
from .optimizer_watch import OptimizerWatch
from .parameters import local, view
from .values import Values
from .writer import Writer

if TYPE_CHECKING:
    from torch import Tensor

MOST = 64
"""Parameters of an optimizer, evenly chosen."""
MODULUS = 2**24
"""fp32, in which values are read, holds these integers exactly."""
LOCAL_STEPS = re.compile("local|diloco|hivemind", re.IGNORECASE)
"""Optimizers whose ranks differ between two averages."""


class Replicas:
    """Records checksums of the samples of some parameters after the steps that are looked at.

    Not within no_sync(): ranks that average their weights from time to time differ between.
    """

    def __init__(self, writer: Writer, values: Values) -> None:
        self.writer = writer
        self.values = values
        self._chosen: dict[int, list[int]] = {}

    def record(self, watch: OptimizerWatch) -> None:
        """A step was applied."""
        if self.writer.world < 2 or LOCAL_STEPS.search(watch.name):
            return
        flat = watch.flat
        chosen, names = self._chosen.get(watch.index), []
        if chosen is None or max(chosen, default=0) >= len(flat):
            chosen = self._chosen[watch.index] = self._choose(watch, flat)
            names = [watch.names.get(i, f"parameter {i}") for i in chosen]
        if not chosen:
            return
        with watch.torch.no_grad():
            sums = [checksum(watch.torch, local(flat[i])) for i in chosen]
        step = watch.steps

        def deliver(values: list[Foreign]) -> None:
            if None not in values:
                whole = [int(value) for value in values[0]]
                fields = {"o": watch.index, "s": step, "v": whole, "names": names}
                self.writer.write("checksums", True, **fields)

        self.values.submit([watch.torch.stack(sums)], deliver)

    def _choose(self, watch: OptimizerWatch, flat: list[Tensor]) -> list[int]:
        replicated = _replicated(watch.torch)
        device = flat[0].device
        indices = [
            tracked.index
            for tracked in watch.parameters.tracked
            if id(flat[tracked.index]) in replicated and flat[tracked.index].device == device
        ]
        every = max(1, -(-len(indices) // MOST))
        return sorted(indices)[::every]


def _replicated(torch: ModuleType) -> set[int]:
    """The parameters of every DistributedDataParallel in memory, without those it ignores, and
    not under join(): a rank that has ended gets the others' weights at the end of the epoch."""
    nn = torch.nn.parallel
    kind = getattr(nn, "DistributedDataParallel", None)
    if kind is None:
        return set()
    replicated = set()
    for module in [o for o in gc.get_objects() if issubclass(type(o), kind)]:
        ignored = getattr(module, "parameters_to_ignore", ())
        joins = getattr(module.__dict__.get("_join_config"), "enable", False)
        if module.__dict__.get("require_backward_grad_sync", True) and not joins:
            names = module.module.named_parameters()
            replicated |= {id(p) for name, p in names if name not in ignored}
    return replicated


def checksum(torch: ModuleType, tensor: Tensor) -> Foreign:
    """An integer below `MODULUS` as fp32, from the bits of samples."""
    samples = view(torch, tensor, whole=False).contiguous()
    integer = {8: torch.int64, 4: torch.int32, 2: torch.int16}[samples.element_size()]
    bits = samples.view(integer).to(torch.int64)
    weights = torch.arange(1, 2 * bits.numel(), 2, device=bits.device)
    return torch.remainder((bits * weights).sum(), MODULUS).float()
