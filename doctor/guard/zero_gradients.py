"""Parameters whose gradients are 0 at every comparison: nothing trains them."""

from __future__ import annotations

from typing import Dict, List, Optional

from . import codes
from . import thresholds as limit
from .foreign import Foreign
from .parameters import local
from .records import WARN, Alarm, Tracked


class ZeroGradients:
    """Of one optimizer. A comparison reads some elements of a gradient; here all are read of those
    that were 0."""

    def __init__(self, torch: Foreign) -> None:
        self._torch = torch
        self._looks: Dict[int, int] = {}
        """Comparisons that found a gradient of zeros only, by the parameter's position."""

    @property
    def found(self) -> bool:
        """Whether a comparison found any."""
        return bool(self._looks)

    def look(self, flat: List[Foreign], tracked: List[Tracked], submit: Foreign) -> None:
        """After a step; to be called without recording a graph."""
        kinds: Dict[Foreign, List[Tracked]] = {}
        for each in tracked:
            gradient = flat[each.index].grad
            if not each.gradient and gradient is not None and not gradient.is_sparse:
                gradient = local(gradient)
                kinds.setdefault((gradient.device, gradient.dtype), []).append(each)
        for some in kinds.values():
            gradients = [local(flat[each.index].grad) for each in some]
            norms = self._torch.stack(self._torch._foreach_norm(gradients, float("inf")))
            submit([norms], self._deliver(some))

    def _deliver(self, some: List[Tracked]) -> Foreign:
        def deliver(values: List[Foreign]) -> None:
            for each, size in zip(some, values[0] or ()):
                each.gradient |= size != 0.0
                self._looks[each.index] = self._looks.get(each.index, 0) + 1

        return deliver

    def alarm(
        self, tracked: List[Tracked], names: Dict[int, str], step: int, optimizer: int
    ) -> Optional[Alarm]:
        """At the end: those that were 0 at every comparison from some step on, beside others."""
        least = limit.ZERO_LOOKS
        zero = [t for t in tracked if not t.gradient and self._looks.get(t.index, 0) >= least]
        zero = [t for t in zero if "expert" not in names.get(t.index, "")]
        if all(t.vector for t in zero) or not any(t.gradient for t in tracked):
            return None  # a bias alone may cancel, as that of a critic's last layer
        moved = sum(t.moved for t in zero)
        text = (
            f"{len(zero)} of {len(tracked)} trainable parameters have gradients of exactly 0 at "
            "every comparison: the loss does not depend on them"
        )
        if moved:
            text += (
                f", and {moved} of them change all the same, by weight decay or outside of step()"
            )
        indices = [t.index for t in zero]
        code = codes.PARAMETERS_REACHED
        return Alarm(code, WARN, step, text, "zeros", optimizer, indices)
