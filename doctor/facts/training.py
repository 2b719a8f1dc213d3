"""Records of training steps: of the doctor's small model, and of the user's model.

Frozen and without thresholds, as in `doctor.facts.machine`.
"""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Ended, Number, Section, Unknown


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
    """The GradScaler found a non-finite gradient and did not update the weights."""
    scale: Number | None = None


class Parameter(Section, frozen=True, kw_only=True):
    """One trainable parameter after the steps."""

    name: str
    dtype: str
    """As torch spells it: "float32", "bfloat16"."""
    size: int
    had_gradient: bool
    """A non-zero gradient in some step that was not skipped."""
    finite: bool
    """Every gradient in unskipped steps was finite."""
    moved: bool
    """Some element changed."""


Fault = Literal[
    "raised", "crashed", "hung", "non-finite loss", "zero loss", "non-finite gradient",
    "no gradient",
]  # fmt: skip


NO_LOSS = ("and is no scalar; return (module", "returned no loss but")
"""Messages of the training process for a forward pass that breaks the contract of a factory."""
LEFT_OUT = "left out, the time was over"
"""The detail of an attempt that was omitted for lack of time."""


class Attempt(Section, frozen=True, kw_only=True):
    """The same steps again with one change."""

    change: str
    """A key of `doctor.collect.diagnosis.CHANGES`: "cudnn-off", "math", "eager", ..."""
    outcome: Literal["mended", "same", "other", "not possible"]
    """mended: the fault is gone. other: another fault occurred."""
    detail: str = ""
    """The error that it ended with, or why it was not possible."""
    loss: Number | None = None
    grad_norm: Number | None = None
    seconds: float = 0.0


class Diagnosis(Section, frozen=True, kw_only=True):
    """The changes that were tried after a fault, in order, until one fixed it."""

    fault: Fault
    attempts: tuple[Attempt, ...] = ()
    first_module: str | None = None
    """Name of the first module whose output was not finite; "": the model itself."""
    first_module_type: str | None = None
    step: int | None = None
    """The step in which a value stopped being finite, from 1."""
    born: Literal["module", "loss", "gradient", "update"] | None = None
    """Origin of the value: a module's output, the loss of finite outputs, a gradient of a finite
    loss, or a weight after an update with finite gradients."""
    bad_gradients: tuple[str, ...] = ()
    """The first parameters whose gradient, or whose value after the update, was not finite."""
    operation: str | None = None
    """The operation that made a gradient non-finite: its name in autograd, and its code."""
    bad_batch: tuple[str, ...] = ()
    """What is wrong with the batch: "labels: 3 of 64 values outside [0, 256)"."""
    noted: tuple[str, ...] = ()
    """Unusual properties of the batch that do not explain the fault alone."""
    bad_weights: tuple[str, ...] = ()
    """Parameters and buffers that were not finite before the first step."""
    seconds: float = 0.0

    @property
    def repeats(self) -> tuple[Attempt, ...]:
        """The attempts that repeated the training unchanged."""
        return tuple(each for each in self.attempts if each.change == "repeat")

    @property
    def intermittent(self) -> bool:
        """The fault did not occur in some unchanged repetition."""
        return any(each.outcome == "mended" for each in self.repeats)

    @property
    def mended_by(self) -> Attempt | None:
        """The first change that fixed the fault; None where the fault is intermittent."""
        if self.intermittent:
            return None
        return next((each for each in self.attempts if each.outcome == "mended"), None)


class Smoke(Section, frozen=True, kw_only=True):
    """A few real training steps on one device."""

    device: str
    precision: Literal["bf16", "fp16", "fp32"]
    recipe: str
    lr: float
    stages: tuple[Stage, ...]
    """In order; if the training did not complete, it ended in the last one."""
    steps: tuple[Step, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    peak_bytes: int | None = None
    """Peak of the device's allocator; None where torch does not measure it (CPU)."""
    diagnosis: Diagnosis | None = None
    """None: no fault occurred, or no change was tried."""
    seconds: float = 0.0

    @property
    def completed(self) -> bool:
        return bool(self.stages) and all(stage.ended.ok for stage in self.stages)


class Settings(Section, frozen=True, kw_only=True):
    """Numeric switches of torch at one moment."""

    when: Literal["after import", "after the model's code"] = "after import"
    tf32_matmul: bool | None = None
    tf32_conv: bool | None = None
    sdp_enabled: dict[str, bool] = {}
    """Backend (flash, mem_efficient, cudnn, math) -> its switch."""
    deterministic: bool | None = None
    """torch.use_deterministic_algorithms."""
    cudnn_benchmark: bool | None = None
    attention: str | None = None
    """transformers' attn_implementation of the model, where it has one."""


class BatchTensor(Section, frozen=True, kw_only=True):
    """One tensor of the training batch."""

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
    """Tokens of a sample; None where the batch has no such dimension."""
    peak_bytes: int


class Scaler(Section, frozen=True, kw_only=True):
    """A GradScaler unscaling one gradient of that dtype on the job's device."""

    dtype: str
    of: Literal["the model", "from_pretrained"]
    """Which weights have that dtype: the trained ones, or those that from_pretrained returns
    without a dtype argument."""
    ended: Ended


class ModelShape(Section, frozen=True, kw_only=True):
    """Sizes of a decoder, from its config.json."""

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
    """_attn_implementation, where the file sets it."""


class LoraOrder(Section, frozen=True, kw_only=True):
    """LoRA and gradient checkpointing switched on in one order, and a few steps of it."""

    order: Literal["checkpointing first", "LoRA first"]
    reentrant: bool
    modules_to_save: tuple[str, ...] = ()
    """Modules that are fully trained in addition to the adapters."""
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


class OwnModel(Section, frozen=True, kw_only=True):
    """The user's own training, named by --model or --hf."""

    said: str
    """The model: "train.py:make", "models/llama (2 of 32 layers, random weights)"."""
    built: Ended
    """How the user's code, or the loading of the model, ended."""
    beyond: bool = False
    """The doctor does not support this kind of model; the model is not at fault."""
    traceback: str = ""
    """The last lines of the traceback, if it raised."""
    versions: dict[str, str] = {}
    """Distribution (transformers, peft, accelerate) -> its version."""
    parameters: int | None = None
    """Of the model as built, without the layers that were removed."""
    trainable: int | None = None
    smoke: Smoke | None = None
    settings: Settings | None = None
    batch: tuple[BatchTensor, ...] = ()
    pad_id: int | None = None
    """The padding token of the folder's tokenizer."""
    scalers: tuple[Scaler, ...] = ()
    """For fp16 only."""
    points: tuple[MemoryPoint, ...] | Unknown = ()
    saved_weights: int | None = None
    """Size of the model's state dict as torch.save writes it, computed without writing."""
    saved_optimizer: int | None = None
    whole: bool = True
    """False: layers were removed, so bytes and counts are not those of the job."""
    lora: tuple[LoraOrder, ...] = ()
    compiled: Compiled | None = None
