"""`protect`: fused optimizers omit a step whose gradients are not finite."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from .foreign import Foreign
from .parameters import local

if TYPE_CHECKING:
    pass


class Protection:
    """Gives a fused optimizer what a loss scaler would, for the time of one step."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self._active = False

    def begin(self, optimizer: Foreign) -> None:
        """Before the step: the kernel reads `found_inf` on the device, nothing waits for it."""
        fused = any(group.get("fused") for group in optimizer.param_groups)
        if not fused or getattr(optimizer, "found_inf", None) is not None:
            return
        gradients = [
            local(p.grad)
            for group in optimizer.param_groups
            for p in group["params"]
            if p.grad is not None
        ]
        norms = self.torch.stack(self.torch._foreach_norm(gradients, 2.0))
        optimizer.found_inf = (~self.torch.isfinite(norms)).any().float()
        optimizer.grad_scale = None
        self._active = True

    def end(self, optimizer: Foreign) -> None:
        """After the step: remove it."""
        if self._active:
            self._active = False
            del optimizer.found_inf, optimizer.grad_scale
