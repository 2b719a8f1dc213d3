"""Records of training steps: of the doctor's small model, and of the user's own training.

Frozen records like those of `doctor.facts.machine`, without thresholds. Where the name of a field
and its JSON key differ, the key is the one that earlier facts files use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from doctor._util.records import Ended, Number, Section, Unknown
from doctor.facts.diagnosis import Diagnosis


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


def without_gradient(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Those that had no gradient other than 0 in any step.

    A bias whose gradient was computed as 0 beside a weight that had one is not among them: the loss
    does not depend on a shift, as a softmax over the choices of one sample does not.
    """
    reached = {each.name for each in parameters if each.had_gradient}
    return tuple(
        each
        for each in parameters
        if not each.had_gradient
        and not (
            each.computed
            and each.name.endswith("bias")
            and f"{each.name.removesuffix('bias')}weight" in reached
        )
    )


NO_LOSS = (
    "and is no scalar; return (module",
    "and is not a scalar; return (module",
    "returned no loss but",
)
"""Texts in the errors of a forward pass that breaks the contract of a factory."""


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


class Trend(Section, frozen=True, kw_only=True):
    """More steps on the same batch, after the ones that are judged."""

    losses: tuple[Number, ...] = ()
    """From the first step on, the judged ones included."""
    classes: int | None = None
    """Classes of the cross entropy in the loss, if it has exactly one."""
    resident: tuple[int, ...] = ()
    """Bytes of memory after each of the last steps: the device's allocator, on a CPU the
    process."""


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


class OtherSeed(Section, frozen=True, kw_only=True):
    """The same training, whose factory was called once more with other random numbers."""

    seed: int
    """Of torch, random and numpy, set before the factory was called."""
    smoke: Smoke | None = None
    """Its steps; None: they were not run."""
    reason: str = ""
    """Why they were not run, or why what they showed does not count."""


class Settings(Section, frozen=True, kw_only=True):
    """Numeric switches of torch at the time `when`."""

    when: Literal["after import", "after the model's code"] = "after import"
    tf32_matmul: bool | None = None
    tf32_conv: bool | None = None
    sdp_enabled: dict[str, bool] = {}
    """Backend (flash, mem_efficient, cudnn, math) -> its switch."""
    deterministic: bool | None = None
    """torch.use_deterministic_algorithms."""
    cudnn_benchmark: bool | None = None
    attention: str | None = None
    """transformers' attn_implementation of the model, if it has one."""


class BatchTensor(Section, frozen=True, kw_only=True):
    """One tensor of the batch that the model was trained on."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nonfinite: int = 0
    low: Number | None = None
    high: Number | None = None


class MemoryPoint(Section, frozen=True, kw_only=True):
    """The peak of a whole step at one size of the batch."""

    batch: int
    """Samples."""
    length: int | None
    """Tokens per sample; None if the batch has no such dimension."""
    peak_bytes: int


class Scaler(Section, frozen=True, kw_only=True):
    """A GradScaler unscaling one gradient of that dtype on the job's device."""

    dtype: str
    of: Literal["the model", "from_pretrained"]
    """The weights with that dtype: those trained here, or those that from_pretrained returns by
    default."""
    ended: Ended


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


class LoraOrder(Section, frozen=True, kw_only=True):
    """A few steps with LoRA and gradient checkpointing, enabled in one order."""

    order: Literal["checkpointing first", "LoRA first"]
    reentrant: bool
    modules_to_save: tuple[str, ...] = ()
    """Modules trained in full beside the adapters."""
    ended: Ended
    trainable: int = 0
    """Trainable parameters (tensors)."""
    without_gradient: tuple[str, ...] = ()
    """Trainable parameters that had no non-zero gradient in any step."""
    non_finite: tuple[str, ...] = ()
    adapter_dtypes: tuple[str, ...] = ()
    recomputed: bool | None = None
    """Whether checkpointing was active: a block ran again in the backward pass."""


class Compiled(Section, frozen=True, kw_only=True):
    """The same step under torch.compile."""

    ended: Ended
    eager: Step | None = None
    compiled: Step | None = None
    error: Number | None = None
    """Relative Frobenius error of all gradients, compiled against eager."""
    differs_most: str = ""
    """The parameter whose gradients are furthest apart."""
    eager_error: Number | None = None
    """Relative error of the eager gradients against those of an fp32 step; None: not computed."""
    compiled_error: Number | None = None
    """The same of the compiled gradients."""


class OwnModel(Section, frozen=True, kw_only=True):
    """The training that the user named with --model or --hf."""

    description: str = msgspec.field(name="said")
    """What was built: "train.py:make", "models/llama (2 of 32 layers, random weights)"."""
    built: Ended
    """How the user's code, or the loading of the model, ended."""
    unsupported: bool = msgspec.field(name="beyond", default=False)
    """The doctor does not support this kind of model, which is no error of the model."""
    traceback: str = ""
    """The frames of the user's files, and the last ones of libraries, if it raised."""
    stack: tuple[str, ...] = ()
    """Lines of Python that it was in when it crashed or hung, the innermost first."""
    printed: tuple[str, ...] = ()
    """The last lines that it printed before it failed."""
    busy: bool | None = None
    """Whether it computed when its time was over, rather than waiting; None: it ended in time."""
    versions: dict[str, str] = {}
    """Distribution (transformers, peft, accelerate) -> its version."""
    parameters: int | None = None
    """Of the model as built, without the layers that were cut."""
    trainable: int | None = None
    smoke: Smoke | None = None
    seed: int | None = None
    """Of torch, random and numpy, set before the factory was called for `smoke`."""
    other_seed: OtherSeed | None = None
    """None: not tried, because the steps failed with the first seed, or it is no factory."""
    trend: Trend | None = None
    settings: Settings | None = None
    batch: tuple[BatchTensor, ...] = ()
    pad_id: int | None = None
    """The padding token of the directory's tokenizer."""
    scalers: tuple[Scaler, ...] = ()
    """Recorded for fp16 only."""
    points: tuple[MemoryPoint, ...] | Unknown = ()
    saved_weights: int | None = None
    """Bytes that torch.save would write of the model's state dict; nothing is written."""
    saved_optimizer: int | None = None
    whole: bool = True
    """False: layers were cut, so bytes and counts are not those of the job."""
    all_parameters: int | None = None
    """Of the model with all its layers, counted without memory; None: it was not cut."""
    lora: tuple[LoraOrder, ...] = ()
    compiled: Compiled | None = None
