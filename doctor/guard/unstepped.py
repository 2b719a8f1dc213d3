"""Programs that end without a step: an optimizer that backward passes reach, a loader without a
batch."""

from __future__ import annotations

import dis
import sys
import weakref
from types import CodeType
from typing import List, Optional, Set

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .loss_graphs import reached
from .parameters import local
from .records import FAIL, WARN
from .switch import raise_of_a_signal

MOST = 8
"""Parameters that are compared: a loop may apply the gradients by itself."""
LIBRARIES = ("/site-packages/", "/dist-packages/", "/doctor/guard/")
MEASURES = {"grad", "clip_grad_norm_", "get_total_norm", "register_hook"}
"""What code reads whose aim is the gradients: Fisher information, influence, attributions."""


class Unstepped:
    """Looks at two of the passes of a program in which nothing has stepped yet."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._optimizer: Foreign = lambda: None
        self._values: List[Foreign] = []
        self._name, self._status = "", ""
        self.empty = ""
        """A sentence on a loader that gives no batch."""

    def ended(self, iterator: Foreign) -> None:
        """An iterator of a DataLoader has no more batches; it may never have had one.

        No length of a sampler is asked for: it may draw its batches then.
        """
        if self.empty or getattr(iterator, "_send_idx", iterator._num_yielded):
            return
        if not self._context.torch.is_grad_enabled() or not self._context.steady.groups_made:
            return  # an evaluation, or a program that trains nothing
        try:
            count = f"{len(iterator._dataset):,}"
        except Exception as error:
            raise_of_a_signal(error)
            return
        batches = iterator._index_sampler
        size, drops = getattr(batches, "batch_size", None), getattr(batches, "drop_last", False)
        self.empty = f"a DataLoader gives no batch of its dataset of {count} samples: "
        self.empty += f"batch_size is {size}" + (" and drop_last is set" if drops else "")

    def passes(self, root: Foreign) -> None:
        """A backward pass from `root` begins, one of those at which this looks."""
        optimizer = self._reached(getattr(root, "grad_fn", None))
        if optimizer is None:
            return
        now, before = _values(optimizer), self._values
        if self._optimizer() is optimizer and len(now) == len(before):
            stays = all(bool((a == b).all()) for a, b in zip(now, before))
            self._name, self._status = type(optimizer).__name__ if stays else "", _meant()
        self._optimizer, self._values = weakref.ref(optimizer), now

    def _reached(self, node: Foreign) -> Optional[Foreign]:
        """The nearest optimizer whose parameters the graph reaches."""
        optimizers = list(self._context.steady.groups_made)
        owners = {id(p): i for i, each in enumerate(optimizers) for p in _parameters(each)}
        found = reached(node, owners) if node is not None and owners else None
        return optimizers[found[0]] if found else None

    def _without_backward(self) -> int:
        """The steps of a program that has never had a gradient; 0 where it had one, or may have."""
        watches = list(self._context.watches())
        if self._context.steady.backwards or any(w.rules.had_gradients for w in watches):
            return 0
        if not all(each.of_torch for each in watches):
            return 0  # it may need no gradient
        steps = sum(each.steps for each in watches)
        return steps if steps >= limit.WITHOUT_BACKWARD else 0

    def close(self) -> None:
        """The program has ended by itself, without a step."""
        steady = self._context.steady
        if self.empty and not steady.backwards and not self._context.step:
            text = f"the program ended without a backward pass: {self.empty}"
            self._context.warn(codes.STEPS_APPLIED, text, "no-batches", step=0, status=FAIL)
        elif steps := self._without_backward():
            text = f"{steps:,} steps of torch's optimizers without a backward pass, and without "
            text += "any gradient: no weight changes"
            self._context.warn(codes.OPTIMIZER_HAS_GRADIENTS, text, "no-backward", status=FAIL)
        if self._name and self._status and not steady.stepped_at and not steady.scaled:
            text = (
                f"{steady.backwards:,} backward passes reach the parameters of {self._name}, and "
                "it never stepped: nothing was trained"
            )
            self._context.warn(codes.STEPS_APPLIED, text, "no-steps", step=0, status=self._status)


def _meant() -> str:
    """The status of a pass without a step, by the nearest code of the program around it that says
    what it is for: step() is called there, gradients are read, or they are cleared alone."""
    frame: Foreign = sys._getframe(1)
    clears = False
    while frame is not None:
        path = frame.f_code.co_filename.replace("\\", "/")
        names = set() if any(part in path for part in LIBRARIES) else _attributes(frame.f_code)
        if "step" in names:
            return FAIL
        if names & MEASURES:
            return ""
        clears = clears or "zero_grad" in names
        frame = frame.f_back
    return WARN if clears else ""


def _attributes(code: CodeType) -> Set[str]:
    """Names of the attributes and methods that a function uses, also in its comprehensions."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    parts = [code, *(each for each in inner if each.co_name.startswith("<"))]
    return {
        each.argval
        for part in parts
        for each in dis.get_instructions(part)
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD")
    }


def _parameters(optimizer: Foreign) -> List[Foreign]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _values(optimizer: Foreign) -> List[Foreign]:
    """Some values of some parameters, as they are now; this may wait for a device."""
    some = [p for p in _parameters(optimizer) if p.requires_grad][:MOST]
    return [local(p).detach().reshape(-1)[: limit.SAMPLED].clone() for p in some]
