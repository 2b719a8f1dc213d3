"""The module of a model that lets a position see a later one."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Set, Tuple

import torch

from ..foreign import Foreign, containers, observing
from ..foreign.module_hooks import module_hooks
from ..subject.training_step import Subject
from . import outputs

MOST_VALUES = 1 << 24
"""Values of one call that are kept; larger models are not searched."""
CHOOSES = ("topk", "sort", "argsort", "max", "amax", "aminmax")
"""A module that chooses among positions on purpose, as the experts of expert-choice routing, or
scales by the largest value of a whole tensor, as quantization does."""


class Call(NamedTuple):
    """What a module took and returned, of the positions before the changed one."""

    name: str
    kind: str
    before: Tuple[torch.Tensor, ...]
    after: Tuple[torch.Tensor, ...]


class Positions:
    """Records the calls of all modules in one evaluation of the loss, the innermost first."""

    def __init__(self, subject: Subject, length: int) -> None:
        self.calls: List[Call] = []
        self.choosing: Set[str] = set()
        self._length, self._subject = length, subject
        self._open: List[Tuple[str, Tuple[torch.Tensor, ...]]] = []
        self._values = 0

    def note(self, name: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if name in CHOOSES:
            self.choosing.update(each for each, _ in self._open)

    def run(self, batch: Foreign) -> List[Call]:
        with module_hooks(self._subject.module, self._enter, self._leave):
            outputs.evaluate(self._subject, batch, self.note)
        return self.calls

    def _enter(self, name: str, module: torch.nn.Module, args: Any, options: Any) -> None:
        if name:
            self._open.append((name, self._kept([args, options])))

    def _leave(self, name: str, module: torch.nn.Module, args: Any, result: Any) -> None:
        if name:
            _, before = self._open.pop()
            kind = type(module).__name__
            self.calls.append(Call(name, kind, before, self._kept(result)))

    def _kept(self, value: Foreign) -> Tuple[torch.Tensor, ...]:
        """Copies of the tensors [samples, positions, ...] and [samples, channels, positions],
        without the last position."""
        kept = []
        for each in containers.tensors(value).values():
            axis = next((n for n in (1, 2) if each.dim() > n and each.shape[n] == self._length), 0)
            if not axis or self._values > MOST_VALUES:
                continue
            self._values += each.numel()
            kept.append(observing.plain(each).narrow(axis, 0, self._length - 1).clone())
        return tuple(kept)


def module_that_mixes(subject: Subject, batch: Foreign, changed: Foreign, length: int) -> str:
    """The innermost module whose result changes before the last of `length` positions though what
    it takes does not; "" if it is not known, or chooses or normalizes over positions."""
    one, other = Positions(subject, length), Positions(subject, length)
    for before, after in zip(one.run(batch), other.run(changed)):
        if before.name != after.name:
            return ""
        if not (_equal(before.after, after.after)) and before.before:
            if not _equal(before.before, after.before):
                continue
            if before.name in one.choosing or "norm" in before.kind.lower():
                return ""
            return "%s (%s)" % (before.name, before.kind)
    return ""


def _equal(one: Tuple[torch.Tensor, ...], other: Tuple[torch.Tensor, ...]) -> bool:
    return len(one) == len(other) and all(
        torch.allclose(a.float(), b.float(), rtol=1e-4, atol=1e-5) for a, b in zip(one, other)
    )
