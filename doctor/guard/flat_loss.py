"""A language model that learns nothing: its loss stays at the entropy of a uniform guess."""

from __future__ import annotations

import gc
import math
from types import ModuleType
from typing import TYPE_CHECKING

from . import thresholds as limit

if TYPE_CHECKING:
    from torch import Tensor


class FlatLoss:
    """The losses of one optimizer, compared with ln(vocabulary).

    `near` is true once the first losses were at ln(vocabulary): a model before its training.
    """

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.start = math.log(vocabulary) if vocabulary >= limit.FLAT_VOCABULARY else 0.0
        self.near = False
        self.steps = 0
        self.rates = 0.0
        self.lowest = math.inf
        self._sum = 0.0
        self._reported = False

    @classmethod
    def of(cls, torch: ModuleType, parameters: list[Tensor]) -> FlatLoss:
        """For the model in memory that holds the parameters."""
        return cls(vocabulary_of(torch, parameters))

    @property
    def text(self) -> str:
        """What was observed."""
        return (
            f"the loss is as high as that of a uniform guess after {self.steps} steps: lowest mean "
            f"of {limit.FLAT_WINDOW} steps {self.lowest:.3f}, ln({self.vocabulary:,}) = "
            f"{self.start:.3f}"
        )

    def add(self, loss: float, rate: float) -> bool:
        """Whether this step shows, for the first time, that nothing is learned."""
        if not self.start or not math.isfinite(loss):
            return False
        self.steps += 1
        self.rates += rate
        self._sum += loss
        if self.steps == limit.FLAT_FIRST:
            mean = self._sum / limit.FLAT_FIRST
            self.near = abs(mean - self.start) <= limit.FLAT_NEAR
        if self.steps % limit.FLAT_WINDOW == 0:
            self.lowest = min(self.lowest, self._sum / limit.FLAT_WINDOW)
            self._sum = 0.0
        late = self.steps >= limit.FLAT_STEPS and self.rates >= limit.FLAT_RATES
        flat = self.near and late and self.lowest > self.start - limit.FLAT_DISTANCE
        first, self._reported = flat and not self._reported, self._reported or flat
        return first


def vocabulary_of(torch: ModuleType, parameters: list[Tensor]) -> int:
    """The vocabulary of the model that holds a parameter: its config's, else of its embedding.

    0 where there is none.
    """
    wanted = {id(p) for p in parameters}
    embedding = 0
    for module in [o for o in gc.get_objects() if issubclass(type(o), torch.nn.Module)]:
        if not any(id(p) in wanted for p in module.parameters()):
            continue
        config = module.__dict__.get("config")
        text = getattr(config, "text_config", None) or config
        values = text if isinstance(text, dict) else getattr(text, "__dict__", {})
        size = values.get("vocab_size")
        if isinstance(size, int) and size > 0:
            return size
        if isinstance(module, torch.nn.Embedding):
            embedding = max(embedding, module.num_embeddings)
    return embedding
