"""The loss before a GradScaler scaled it."""

from __future__ import annotations

import weakref
from typing import Any


class Scaling:
    """`unscaled`: the scaled loss, weakly, and the loss it was made of."""

    def __init__(self) -> None:
        self.unscaled: tuple[Any, Any] | None = None

    def loss_scaled(self, loss: Any, scaled: Any) -> None:
        """GradScaler.scale(loss) returned `scaled`."""
        self.unscaled = (weakref.ref(scaled), loss.detach())

    def loss_before(self, loss: Any) -> Any:
        """The loss as it was before it was scaled."""
        scaled, self.unscaled = self.unscaled, None
        return scaled[1] if scaled is not None and scaled[0]() is loss else loss
