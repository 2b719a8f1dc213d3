"""Heads for a task that LoRA leaves frozen, with the values of a new layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .parameters import DEVICES, local
from .values import unless_lost

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch


class FrozenHeads:
    """`_before`: the heads that were frozen at the look before, by name."""

    def __init__(self, context: Context) -> None:
        self._context, self.torch = context, context.torch
        self._before: dict[str, Foreign] = {}

    def look(self, model: Foreign, watch: OptimizerWatch) -> None:
        """After a step of `watch`: whether those of two looks have zeros as biases, and weights of
        the spread that the configuration initializes with."""
        heads: dict[str, Foreign] = {}
        for name, owner, head in _heads(model):
            weights = [p for p in head.parameters() if p.dim() > 1]
            if weights and weights[-1].device.type in DEVICES:
                heads[name] = weights[-1]
                if self._before.get(name) is weights[-1]:
                    self._read(name, owner, head, watch)
        self._before = heads

    def _read(self, name: str, owner: Foreign, head: Foreign, watch: OptimizerWatch) -> None:
        spread = getattr(owner.config, "initializer_range", None)
        weight, elements = self._before[name], self._before[name].numel()
        biases = [local(p).abs().max().float() for p in head.parameters() if p.dim() == 1]
        if not isinstance(spread, float) or (not biases and elements < limit.ENOUGH_SPREAD):
            return
        error = limit.SPREAD_ERROR * spread / (2 * elements) ** 0.5

        def judge(values: list[float]) -> None:
            if not any(values[1:]) and abs(values[0] - spread) <= error:
                text = (
                    f"LoRA trains the layers, and {name} of {type(owner).__name__} is frozen with "
                    f"the values of a new layer, of the standard deviation {values[0]:.3g}"
                )
                self._context.warn(codes.ZEROS_MOVE, text, "head", watch)

        values = [local(weight).float().std(), *biases]
        self._context.submit([self.torch.stack(values)], unless_lost(judge))


def _heads(model: Foreign) -> Iterator[tuple[str, Foreign, Foreign]]:
    """Name, owner and module of what stands beside the base of a model of transformers, frozen,
    while LoRA trains the base; not what gives scores to a vocabulary."""
    for owner in model.modules():
        prefix = getattr(type(owner), "base_model_prefix", None)
        base = owner._modules.get(prefix) if isinstance(prefix, str) else None
        if base is None or not hasattr(owner, "config"):
            continue
        if not any("lora_" in name and p.requires_grad for name, p in base.named_parameters()):
            continue
        vocabulary = getattr(owner.config, "vocab_size", 0)
        for name, head in owner._modules.items():
            parameters = [] if head is None or head is base else list(head.parameters())
            frozen = parameters and not any(p.requires_grad for p in parameters)
            if frozen and all(vocabulary not in p.shape for p in parameters):
                yield name, owner, head
