"""Numbers and sizes that a loss is computed with, read from its graph: weights of its terms,
temperatures, exponents, bounds, and the lengths of what it was computed from."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import ModuleType
from typing import Callable, ContextManager, Dict, List, Optional

from .. import dynamo
from ..foreign import Foreign
from ..patches import Patches

MOST_NODES = 400
"""Of a graph, nearest to the loss first."""
MOST_PASSES = 4
"""Backward passes of one step."""
MOST_STEPS = 300
MOST = 400
"""Numbers of one step."""
SIZES = "sizes"
NUMBERS = ("other", "self", "exponent", "alpha", "beta", "weight", "min", "max", "p", "value")
"""Of what a node keeps, after `_saved_`: what may be a number of the program."""


class Numbers:
    """Follows them from backward pass to backward pass."""

    def __init__(self, torch: ModuleType, observer: Foreign) -> None:
        self.torch, self.observer = torch, observer
        self._names: Dict[type, List[str]] = {}
        self._now: Dict[str, float] = {}
        self._before: Dict[str, float] = {}
        self._passes = 0

    def install(self, patches: Patches) -> None:
        """Wrap torch.autograd.backward, which Tensor.backward() calls."""
        patches.replace(self.torch.autograd, "backward", self._backward)

    def _backward(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        def look(root: Foreign) -> None:
            self.observer.safely(self.look, root)

        tracing, untraced = dynamo.tracing(self.torch), dynamo.without_frames(self.torch, look)

        def backward(*args: Foreign, **kwargs: Foreign) -> Foreign:
            root: Foreign = args[0] if args else kwargs.get("tensors")
            (look if tracing() is None else untraced)(root)
            return original(*args, **kwargs)

        return dynamo.without_frame(self.torch, backward)

    def look(self, root: Foreign) -> None:
        """A backward pass begins from this tensor, or from several."""
        if self.observer.step >= MOST_STEPS or self._passes >= MOST_PASSES:
            return
        began = time.monotonic()
        self._passes += 1
        several: Foreign = root if isinstance(root, (list, tuple)) else [root]
        nodes = [node for each in several if (node := getattr(each, "grad_fn", None)) is not None]
        seen = set(nodes)
        counts: Dict[str, int] = {}
        with _without_modes():
            for node in nodes:
                self._read(node, counts)
                for parent, _ in node.next_functions:
                    if parent is not None and parent not in seen and len(nodes) < MOST_NODES:
                        seen.add(parent)
                        nodes.append(parent)
        self.observer.own_seconds += time.monotonic() - began

    def step(self) -> Dict[str, Optional[float]]:
        """Those that are others than at the step before; None for one that is gone."""
        now, before = self._now, self._before
        changed: Dict[str, Optional[float]] = {
            name: value for name, value in now.items() if before.get(name) != value
        }
        changed.update((name, None) for name in before if name not in now)
        self._before, self._now, self._passes = now, {}, 0
        return changed

    def _read(self, node: Foreign, counts: Dict[str, int]) -> None:
        kind = type(node)
        if kind not in self._names:
            self._names[kind] = [
                name for name in dir(kind)
                if name.startswith("_saved_") and (name[7:] in NUMBERS or name.endswith(SIZES))
            ]  # fmt: skip
        for name in self._names[kind]:
            place = f"{kind.__name__}.{name[7:]}"
            number = counts[place] = counts.get(place, 0) + 1
            try:
                value = _saved(node, name)
                sizes = value if isinstance(value, tuple) and name.endswith(SIZES) else (value,)
                found = [self._number(each) for each in sizes]
            except (RuntimeError, TypeError, ValueError):  # it was freed, or is none of torch's own
                continue
            for at, each in enumerate(found):
                if each is not None and len(self._now) < MOST:
                    self._now[f"{self._passes} {place} {number} {at}"] = each

    def _number(self, value: Foreign) -> Optional[float]:
        """A number of Python's, which torch keeps as a tensor without dimensions of 64 bits."""
        torch = self.torch
        if type(value) is torch.Tensor:
            wide = value.dtype in (torch.float64, torch.int64)
            return float(value) if wide and not value.dim() and value.is_cpu else None
        return float(value) if type(value) in (int, float) else None


def _saved(node: Foreign, name: str) -> Foreign:
    """What a node keeps under a name; None for a tensor with a hook, or where torch cannot tell.

    A hook gives its tensor once, or computes it anew (offloading, activation checkpointing): a
    tensor is never unpacked here. Older versions of torch have no `unpack_hook`.
    """
    raw = f"_raw{name}"
    if not hasattr(type(node), raw):
        return getattr(node, name)
    saved = getattr(node, raw)
    return saved.data if getattr(saved, "unpack_hook", saved) is None else None


def _without_modes() -> ContextManager[Foreign]:
    """No mode of torch sees what is read, as that which counts operations would."""
    from torch.utils import _python_dispatch as modes

    disable: Foreign = getattr(modes, "_disable_current_modes", nullcontext)
    context: ContextManager[Foreign] = disable()
    return context
