"""The loss before a GradScaler scaled it."""

from __future__ import annotations

import weakref

from .foreign import Foreign


class Scaling:
    """`unscaled`: the scaled loss, weakly, and the loss it was made of."""

    def __init__(self) -> None:
        self.unscaled: tuple[Foreign, Foreign] | None = None

    def loss_scaled(self, loss: Foreign, scaled: Foreign) -> None:
        """GradScaler.scale(loss) returned `scaled`."""
        self.unscaled = (weakref.ref(scaled), loss.detach())

    def loss_before(self, loss: Foreign) -> Foreign:
        """The loss as it was before it was scaled."""
        scaled, self.unscaled = self.unscaled, None
        return scaled[1] if scaled is not None and scaled[0]() is loss else loss
