"""What the watch hands to the rules: plain numbers, no tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import List, Optional

FAIL, WARN, NOTE = "fail", "warn", "note"


@dataclass
class Step:
    """One call of an optimizer's step().

    `losses` are the scalars that backward() received since the step before, without the loss
    scale. `norm` is the 2-norm of the gradients, of all of them if `whole`; None was not read.
    `apart`: of all, where that of a few is taken at other steps, so that they do not compare.
    `rates` are the learning rates of the groups. `backwards` counts backward passes since the
    optimizer's step before, `uncleared` that nothing cleared its gradients since then.
    """

    optimizer: int
    step: int
    losses: List[float] = field(default_factory=list)
    norm: Optional[float] = None
    whole: bool = False
    apart: bool = False
    applied: Optional[float] = None
    """The norm of the gradients as they are at step(), at comparisons where `norm` is the loop's;
    None: not read."""
    rates: List[Optional[float]] = field(default_factory=list)
    skipped: bool = False
    scaled: bool = False
    without: int = 0
    parameters: int = 0
    backwards: int = 1
    uncleared: bool = False
    repeated: bool = False
    """No backward pass since the step before, and the sampled gradient is the same."""
    reached: bool = False
    """The last backward pass left gradients, after steps that had none."""
    moment: float = 0.0
    """Seconds since 1970; 0.0 where nothing can be wrong with the step."""
    read: bool = True
    """False: losses and norm were not read; nothing else of the step was unusual."""
    unread: int = 0
    """Steps before it, in a row, that were not read."""

    @property
    def effective(self) -> bool:
        """Whether it should have changed weights."""
        return not self.skipped and self.without < self.parameters and self.rate != 0.0

    @property
    def rate(self) -> Optional[float]:
        """The largest learning rate, None where none could be read."""
        return max((rate for rate in self.rates if rate is not None), default=None)

    @property
    def spoils(self) -> bool:
        """Whether its gradients are not finite, and nothing is known to have left them out."""
        return self.norm is not None and not math.isfinite(self.norm) and not self.skipped

    @property
    def loss(self) -> Optional[float]:
        """The sum over the micro-batches."""
        return sum(self.losses) if self.losses else None


@dataclass
class Tracked:
    """A parameter of an optimizer that is compared with its start.

    `start` is "ones", "zeros" or "other"; `vector` is a parameter of one dimension. `moved` and
    `gradient` are true from the first look at which it differed, or had a gradient that is not 0.
    """

    index: int
    group: int
    dtype: str
    elements: int
    start: str = "other"
    vector: bool = False
    moved: bool = False
    gradient: bool = False

    @property
    def half(self) -> bool:
        """Whether it has 16 bits."""
        return self.dtype in ("bfloat16", "float16")


@dataclass
class Look:
    """All tracked parameters of an optimizer after `effective` steps that should change them."""

    optimizer: int
    step: int
    effective: int
    tracked: List[Tracked]
    rates: List[float]
    """The largest learning rate of each group so far."""
    peak: float
    """The largest learning rate that is known to come."""
    rising: bool
    """The learning rate has risen in the last steps."""
    adaptive: bool
    """torch's own Adam or a relative, whose first step changes whatever has a gradient."""
    compensated: bool
    """The optimizer keeps masters or what was rounded away."""
    name: str = "the optimizer"
    rate: float = 1.0
    """The largest learning rate now."""
    tiny_since: int = 0
    """Since which look it has been too small to change fp32 weights; 0 if it is not."""
    undone: bool = False
    """Before the steps the weights were back at their start, each time they were compared."""


@dataclass
class Alarm:
    """What a rule observed. `cause` is a word that selects the fix; `indices` are parameters."""

    code: str
    status: str
    step: int
    text: str
    cause: str = ""
    optimizer: int = 0
    indices: List[int] = field(default_factory=list)
