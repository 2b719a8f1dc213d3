"""The floating-point operations of one step, counted from the shapes of what torch dispatches.

The step that is counted is slower than others; it is one of those that no pace is made of. Compiled
code does not pass here, and a sharded tensor passes as a whole: neither is counted.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Dict, Optional, Set

from ..foreign import Foreign
from .records import Records

STEP = 2
"""The first two are left out of the pace."""
MULTIPLIES = ("mm", "conv", "attention", "rnn", "lstm", "gru", "linear", "einsum")
"""Parts of names of operators of torch that multiply matrices."""
MOST_LEFT_OUT = 5


class Arithmetic:
    """Counts from the end of the step before `STEP` to the beginning of the update of `STEP`."""

    def __init__(self, torch: ModuleType, records: Records) -> None:
        self.torch = torch
        self.records = records
        self._tally: Optional[Tally] = None
        self._mode: Foreign = None
        self._thread = 0

    def begin(self, step: int, optimizer: Foreign) -> None:
        """An optimizer stepped; where its next step is the one, it is counted. Raises ImportError
        in a torch that has no formulas (before 2.1)."""
        if step == STEP - 1 and self._tally is None and self._can_be_counted(optimizer):
            self._tally = Tally(self.torch)
            self._mode = mode_of(self._tally)
            self._thread = threading.get_ident()
            self._mode.__enter__()

    def end(self) -> None:
        """The next step begins: the count, if there is one, is recorded."""
        tally, self._tally = self._tally, None
        if tally is None:
            return
        from torch.utils import _python_dispatch as modes

        tally.counts = False
        innermost: Foreign = modes._get_current_dispatch_mode()
        if threading.get_ident() == self._thread and innermost is self._mode:
            self._mode.__exit__(None, None, None)
            if tally.flops:
                flops = {str(dtype)[6:]: count for dtype, count in tally.flops.items()}
                left_out = sorted(tally.left_out)[:MOST_LEFT_OUT]
                self.records.write("counted", flops=flops, left_out=left_out)

    def _can_be_counted(self, optimizer: Foreign) -> bool:
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if any(hasattr(each, "device_mesh") for each in parameters):
            return False
        dynamo = sys.modules.get("torch._dynamo.utils")
        return dynamo is None or not dynamo.counters["frames"]["total"]


class Tally:
    """Operations by dtype, and the operators that could not be counted."""

    def __init__(self, torch: Foreign) -> None:
        from torch.utils.flop_counter import flop_registry

        self.flops: Dict[Foreign, int] = {}
        self.left_out: Set[str] = set()
        self.counts = True
        self._torch = torch
        self._formulas: Foreign = flop_registry

    def add(self, func: Foreign, args: Foreign, kwargs: Foreign, result: Foreign) -> None:
        """A call of an operator."""
        formula = self._formulas.get(getattr(func, "_overloadpacket", func))
        if formula is None:
            name = str(getattr(func, "_schema", func)).partition("(")[0].partition(".")[0]
            if multiplies(name):
                self.left_out.add(name)
            return
        try:
            dtype = next(each.dtype for each in args if isinstance(each, self._torch.Tensor))
            count = formula(*args, **kwargs, out_val=result)
        except (StopIteration, TypeError, AssertionError, IndexError, ValueError):
            self.left_out.add(str(func))
            return
        self.flops[dtype] = self.flops.get(dtype, 0) + count


def mode_of(tally: Tally) -> Foreign:
    """A mode of torch under which every operator is run and tallied."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def dispatch(
        mode: Foreign, func: Foreign, types: Foreign, args: Foreign = (), kwargs: Foreign = None
    ) -> Foreign:
        result = func(*args, **(kwargs or {}))
        if tally.counts:
            tally.add(func, args, kwargs or {}, result)
        return result

    return type("Counting", (TorchDispatchMode,), {"__torch_dispatch__": dispatch})()


def multiplies(name: str) -> bool:
    """Whether an operator without a formula may multiply matrices: of torch one whose name says
    so, of other libraries any."""
    library, _, operator = name.partition("::")
    if library in ("aten", "quantized", "mkldnn", "onednn"):
        return any(part in operator for part in MULTIPLIES)
    return library not in ("prim", "prims", "c10d", "_c10d_functional", "profiler", "debugprims")
