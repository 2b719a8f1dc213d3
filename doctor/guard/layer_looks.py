"""Layers whose input is always 0, and adapters that cannot leave 0, at comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import codes
from . import thresholds as limit
from .context import Context, first_two
from .foreign import Foreign
from .frozen_heads import FrozenHeads
from .parameters import DEVICES, local, view
from .values import unless_lost

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch


class LayerLooks:
    """Linear and convolution layers: a bias gets gradients and its weight gets zeros only.

    The gradient of such a weight is that of the bias times the layer's input, so the input is 0:
    the units before it are dead, or it is cut off.
    """

    def __init__(self, context: Context) -> None:
        self._context, self.torch = context, context.torch
        self._heads = FrozenHeads(context)
        self._without_input: dict[str, int] = {}
        """Layer -> looks in a row; the first reads some elements of a gradient, the others all."""
        self._adapters: int | None = None
        """LoRA's B matrices at the look before, if all were frozen at 0."""

    def look(self, model: Foreign, watch: OptimizerWatch) -> None:
        """After a step of `watch`; to be called without recording a graph."""
        layers: dict[Foreign, list[tuple[str, Foreign, Foreign]]] = {}
        for name, module in model.named_modules():
            pair = self._gradients(module)
            if pair is not None:
                weight, bias = pair
                if not self._without_input.get(name):
                    weight = view(self.torch, weight, False)
                layers.setdefault((weight.device, weight.dtype), []).append((name, weight, bias))
        for found in layers.values():
            some = found[: limit.MOST_LAYERS]
            names, weights, biases = map(list, zip(*some))
            norm, stack = self.torch._foreach_norm, self.torch.stack
            sizes = [stack(norm(each, float("inf"))) for each in (weights, biases)]
            self._context.submit(sizes, unless_lost(self._judge, names, watch))
        self._heads.look(model, watch)
        if watch.effective >= limit.ADAPTERS_FROM:
            self._look_at_adapters(model, watch)

    def _gradients(self, module: Foreign) -> tuple[Foreign, Foreign] | None:
        """Those of weight and bias, where autograd's own are in both."""
        layers = self.torch.nn.Linear, self.torch.nn.modules.conv._ConvNd
        if not isinstance(module, layers):
            return None
        both = [module._parameters.get(name) for name in ("weight", "bias")]
        if any(p is None or p.grad is None or p._backward_hooks for p in both):
            return None
        weight, bias = (local(p.grad) for p in both)
        plain = weight.numel() and bias.numel() and not (weight.is_sparse or bias.is_sparse)
        same = weight.dtype == bias.dtype and weight.device == bias.device
        return (weight, bias) if plain and same and weight.device.type in DEVICES else None

    def _judge(
        self, names: list[str], watch: OptimizerWatch, weights: list[float], biases: list[float]
    ) -> None:
        reached = sum(size != 0.0 for size in biases)
        without = [
            name for name, w, b in zip(names, weights, biases) if float(w) == 0.0 and float(b) > 0.0
        ]
        for name in names:
            row = self._without_input.get(name, 0)
            self._without_input[name] = row + 1 if name in without else 0
        if len(without) == reached > 1:
            return  # the loop trains biases alone
        bad = [name for name in without if self._without_input[name] == limit.INPUT_LOOKS]
        if bad:
            text = (
                f"the input of {len(bad)} of {len(names)} linear and convolution layers "
                f"({first_two(bad)}) is exactly 0 for whole batches, at "
                f"{limit.INPUT_LOOKS} comparisons in a row: the bias has a gradient, and that of "
                "the weight is 0 everywhere"
            )
            self._context.warn(codes.GRADIENTS_NOT_ZERO, text, "no-input", watch)

    def _look_at_adapters(self, model: Foreign, watch: OptimizerWatch) -> None:
        """At two looks, every LoRA matrix is frozen and every B is 0: the adapter does nothing."""
        lora = [(n, p) for n, p in model.named_parameters() if "lora_" in n]
        seconds = [local(p) for n, p in lora if "lora_B" in n or "lora_embedding_B" in n]
        if not seconds or any(p.requires_grad for _, p in lora):
            self._adapters = None
            return
        before, self._adapters = self._adapters, len(seconds)
        if before is None or any(b.device.type not in DEVICES for b in seconds):
            return
        some = [b.float().abs().max() for b in seconds[: limit.MOST_LAYERS] if b.numel()]

        def judge(sizes: list[float]) -> None:
            if not any(sizes):
                text = (
                    f"all {len(lora)} LoRA parameters have requires_grad=False, and all "
                    f"{len(seconds)} B matrices are 0.0: the adapter changes nothing and is not "
                    "trained"
                )
                self._context.warn(codes.ZEROS_MOVE, text, "frozen", watch)

        for device in {size.device for size in some}:
            here = self.torch.stack([size for size in some if size.device == device])
            self._context.submit([here], unless_lost(judge))
