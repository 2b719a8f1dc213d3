"""The operations of a forward pass that write parameters, with their lines."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Options, Types, observing, places
from ..subject.training_step import Subject

MOST = 4


class Writes:
    """Lines that wrote one of these parameters: "copy_ in train.py, line 12"."""

    def __init__(self, weights: Dict[str, torch.Tensor]) -> None:
        self.lines: List[str] = []
        self._addresses = {each.data_ptr() for each in weights.values() if each.numel()}
        self._ids = {id(each) for each in weights.values()}

    def around(self, subject: Subject) -> Subject:
        """The subject, with its forward pass and loss watched if there is something to watch."""
        if not self._ids:
            return subject

        def loss(module: torch.nn.Module, batch: Foreign) -> torch.Tensor:
            with InPlace(self), Assigned(self):
                return subject.loss(module, batch)

        return subject._replace(loss=loss)

    def note(self, name: str) -> None:
        (place, _), _ = places.innermost()
        function = places.called_in_torch()
        caller = " of %s" % function if function not in ("", name) else ""
        line = "%s%s%s" % (name, caller, " in %s" % place if place else "")
        if line not in self.lines and len(self.lines) < MOST:
            self.lines.append(line)

    def holds(self, value: Foreign) -> bool:
        try:
            return isinstance(value, torch.Tensor) and value.data_ptr() in self._addresses
        except Exception:  # sparse and other tensors have no storage
            return False

    def is_one(self, value: Foreign) -> bool:
        return id(value) in self._ids


def discarded(subject: Subject, names: List[str], seeded: Any) -> List[str]:
    """Those of these parameters whose value after a forward pass hardly depends on what it was
    before. `seeded` sets the random number generators."""
    if not names:
        return []
    weights = subject.weights
    initial = {name: weights[name].detach().clone() for name in names}
    starts: List[Dict[str, torch.Tensor]] = []
    ends: List[Dict[str, torch.Tensor]] = []
    try:
        for factor in FACTORS:
            with torch.no_grad():
                for name in names:
                    weights[name].copy_(initial[name] * factor + (1.0 - factor))
            starts.append({name: weights[name].detach().clone() for name in names})
            seeded()
            subject.loss(subject.module, subject.batch)
            ends.append({name: weights[name].detach().clone() for name in names})
    except Exception:  # not with these values
        return []
    finally:
        with torch.no_grad():
            for name in names:
                weights[name].copy_(initial[name])
    return [name for name in names if distance(ends, name) <= SURVIVING * distance(starts, name)]


def distance(values: List[Dict[str, torch.Tensor]], name: str) -> float:
    return float((values[0][name].float() - values[1][name].float()).norm())


SURVIVING = 0.01
"""Our own number: the share of a change that a forward pass leaves, below which it is discarded. A
moving average with a factor of 0.999 that is copied over the weights leaves 0.001."""


FACTORS = (1.0, 1.0 - 2**-6)
"""By which parameters are multiplied, beside an offset that changes those of 0, to compare what a
forward pass makes of them."""


class InPlace(observing.DispatchMode):
    """Operations that write into the memory of a parameter."""

    def __init__(self, writes: Writes) -> None:
        super().__init__()
        self._writes = writes

    def __torch_dispatch__(
        self, func: Foreign, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        name = str(func).split(".")[1] if "." in str(func) else str(func)
        written = args[:1] if name.endswith(("_", "renorm_")) else ()
        if any(self._writes.holds(each) for each in written):
            self._writes.note(name)
        return func(*args, **(kwargs or {}))


class Assigned(TorchFunctionMode):
    """Assignments to the .data of a parameter."""

    def __init__(self, writes: Writes) -> None:
        super().__init__()
        self._writes = writes

    def __torch_function__(
        self, func: Foreign, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        setter = observing.own_name(func) == "__set__"
        if setter and func.__self__.__name__ == "data" and self._writes.is_one(args[0]):
            self._writes.note("an assignment to .data")
        return func(*args, **(kwargs or {}))
