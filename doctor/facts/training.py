"""Records of training steps: of the doctor's small model, and of the user's own training.

Frozen records like those of `doctor.facts.machine`, without thresholds. Where the name of a field
and its JSON key differ, the key is the one that earlier facts files use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from doctor._util.records import Ended, Number, Section
from doctor.facts.diagnosis import Diagnosis

HALVES = ("bfloat16", "float16")
"""Dtypes of half precision, as torch names them."""


class Stage(Section, frozen=True, kw_only=True):
    """One stage of a training, summed over its steps."""

    name: str
    ended: Ended


class Step(Section, frozen=True, kw_only=True):
    """One training step."""

    loss: Number
    grad_norm: Number
    lr: float
    skipped: bool = False
    """The GradScaler found a non-finite gradient and skipped the update."""
    scale: Number | None = None


class Parameter(Section, frozen=True, kw_only=True):
    """One trainable parameter after the steps."""

    name: str
    dtype: str
    """As torch spells it: "float32", "bfloat16"."""
    size: int
    computed: bool | None = None
    """The backward pass gave it a gradient, possibly of zeros; None: not recorded."""
    had_gradient: bool
    """A non-zero gradient in some step that was not skipped."""
    finite: bool
    """Every gradient in unskipped steps was finite."""
    moved: bool
    """Some element changed."""
    dimensions: int | None = None
    """2 for a matrix, 4 for the kernel of a 2-D convolution; None: not recorded."""
    grad_norm: Number | None = None
    """The largest norm of its gradient in a step that was not skipped."""
    order: int | None = None
    """Its place in the order in which the backward pass reaches the parameters, 0 nearest to the
    loss."""
    rows_alike: bool = False
    """A matrix whose rows are all the same, before the first step and after the last one."""
    set_back: bool = False
    """The forward pass after the first update sets it back to its initial value."""
    undone: bool = False
    """That pass undoes the update: it sets it back to a value that it had before, in general."""
    rewritten: bool = False
    """That pass changes it in another way, as a clipping of weights does."""
    change: Number | None = None
    """The norm of the first update as a share of that of the parameter; None: 0, or too large to
    be compared."""
    clipped: bool = False
    """A plain step along the gradient would change it, and not once the gradient is clipped."""
    steerable: bool | None = None
    """A plain step of the user's learning rate along some gradient would change it; None: the
    optimizer is the doctor's."""
    rate: float | None = None
    """The highest learning rate of its group, in the steps and before a schedule multiplies it;
    None: the optimizer is the doctor's, or the schedule does not note what it multiplies."""
    near_zero: bool = False
    """A matrix, or a gain, that is so small before the first step that it lets hardly anything
    through."""
    copied: bool = False
    """It has no gradient and starts with the values of one that has, outside of its list of
    layers."""


def without_gradient(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Those that had no gradient other than 0 in any step.

    A bias whose gradient was computed as 0 beside a weight that had one is not among them: the loss
    does not depend on a shift, as a softmax over the choices of one sample does not. The weight may
    be computed of others: weight_v, parametrizations.weight.original0.
    """
    reached = [each.name for each in parameters if each.had_gradient]

    def shifts(bias: Parameter) -> bool:
        layer = bias.name.removesuffix("bias")
        weights = f"{layer}weight", f"{layer}parametrizations.weight."
        return bias.name != layer and any(name.startswith(weights) for name in reached)

    return tuple(p for p in parameters if not p.had_gradient and not (p.computed and shifts(p)))


NO_LOSS = (
    "and is no scalar; return (module",
    "and is not a scalar; return (module",
    "returned no loss but",
)
"""Texts in the errors of a forward pass that breaks the contract of a factory."""


class Forecast(Section, frozen=True, kw_only=True):
    """What the schedule gives after steps in which the learning rate was 0, tried on a copy."""

    zeros: int
    """Further steps in which it is 0."""
    rate: float | None = None
    """The learning rate of the step after them; None: it was not tried, or is 0, too."""
    place: str = ""
    """The user's line that returns 0."""
    code: str = ""


class Optimizer(Section, frozen=True, kw_only=True):
    """The user's own optimizer, after the steps."""

    name: str
    rates: tuple[float, ...] = ()
    """Learning rates of its groups, after the last step."""
    schedule: str | None = None
    max_norm: float | None = None
    """The norm that all gradients together are clipped to."""
    omitted: tuple[str, ...] = ()
    """Trainable parameters that are in none of its groups."""
    strays: int = 0
    """Trainable tensors of its groups that are no parameters of the model."""
    maximize: bool = False
    """Some group has maximize=True."""
    resting: tuple[str, ...] = ()
    """Trainable parameters of groups whose learning rate was 0 in every step, and stays so."""
    waiting: tuple[str, ...] = ()
    """Those of groups whose learning rate was 0 in every step, and which a schedule may raise."""
    forecast: Forecast | None = None
    """Only where the learning rate was 0 in every step, under a schedule of torch."""
    epsilon: float | None = None
    """The largest `eps` of its groups; None: it has none, or they were not recorded."""
    momentum: float = 0.0
    """The largest `momentum` of its groups."""
    decay: float = 0.0
    """The largest product of learning rate and weight decay in the steps."""


class Smoke(Section, frozen=True, kw_only=True):
    """A few real training steps on one device."""

    device: str
    precision: Literal["bf16", "fp16", "fp32"]
    recipe: str
    lr: float
    stages: tuple[Stage, ...]
    """In order; the last one is where the training stopped if it did not complete."""
    steps: tuple[Step, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    peak_bytes: int | None = None
    """Peak of the device's allocator; None if torch does not report it (CPU)."""
    optimizer: Optimizer | None = None
    """None: the doctor's AdamW."""
    diagnosis: Diagnosis | None = None
    """None: there was no fault, or no bisection."""
    seconds: float = 0.0

    @property
    def completed(self) -> bool:
        return bool(self.stages) and all(stage.ended.ok for stage in self.stages)


class Settings(Section, frozen=True, kw_only=True):
    """Numeric switches of torch at the time `when`."""

    when: Literal["after import", "after the model's code"] = "after import"
    tf32_matmul: bool | None = None
    sdp_enabled: dict[str, bool] = {}
    """Backend (flash, mem_efficient, cudnn, math) -> its switch."""
    deterministic: bool | None = None
    """torch.use_deterministic_algorithms."""
    attention: str | None = None
    """transformers' attn_implementation of the model, if it has one."""


class ModelShape(Section, frozen=True, kw_only=True):
    """Sizes of a decoder, from its config.json, read as data."""

    file: str
    layers: int
    hidden: int
    heads: int
    intermediate: int
    """Width of the feed-forward part."""
    gated: bool
    """The feed-forward part multiplies by a gate: three matrices, not two."""
    vocabulary: int
    attention: str | None = None
    """_attn_implementation, if the file has it."""
