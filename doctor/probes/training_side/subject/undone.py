"""Whether the forward pass after the first update undoes it."""

from __future__ import annotations

from typing import Dict, List, Optional

import torch

from .fingerprints import equal, fingerprint

Values = Dict[str, torch.Tensor]


class Undone:
    """Compares parameters after two forward passes, with an update between them."""

    def __init__(self, weights: Values, before: Values) -> None:
        self.names: List[str] = []
        """Parameters whose update is undone."""
        self.initial: List[str] = []
        """Those of them that have the values of `before` again."""
        self.rewritten: List[str] = []
        """Parameters that the forward pass after the first update changes otherwise."""
        self.changes: Dict[str, float] = {}
        """Parameter -> the norm of the first update as a share of its own; of small ones only."""
        self._weights, self._before = weights, before
        self._used: Optional[Values] = None
        """Values after the first forward pass."""
        self._updated: Optional[Values] = None
        self._over = False

    def stop(self) -> None:
        self._over = True

    def after_forward(self) -> None:
        if self._over:
            return
        if self._used is None:
            self._used = self._values()
        elif self._updated is not None:
            now = self._values()
            self.names = [
                name
                for name, used in self._used.items()
                if not equal(self._updated[name], used) and equal(now[name], used)
            ]
            self.initial = [n for n in self.names if equal(now[n], self._before[n])]
            changed = [n for n, value in now.items() if not equal(value, self._updated[n])]
            self.rewritten = [n for n in changed if n not in self.names]
            self._over = True

    def after_update(self) -> None:
        if not self._over and self._updated is None:
            self._updated = self._values()
            for name, used in (self._used or {}).items():
                size = float(used.float().norm()) if used.shape == self._weights[name].shape else 0
                if size:
                    change = float((self._updated[name].float() - used.float()).norm())
                    self.changes[name] = change / size

    def _values(self) -> Values:
        return {name: fingerprint(value) for name, value in self._weights.items()}
