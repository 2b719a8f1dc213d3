"""The training that the machine is examined for, and the precision it runs in."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from doctor._util.text_fields import Arguments
from doctor._util.units import MOST_PARAMETERS
from doctor.hardware.vendors import ON_CUDA, TargetKind
from doctor.job.quantities import MOST

Precision = Literal["bf16", "fp16", "fp32"]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Parameters = Annotated[int, msgspec.Meta(ge=1, le=MOST_PARAMETERS)]
Optimizer = Literal[
    "adamw", "adamw-8bit", "adafactor", "sgd", "sgd-momentum", "lion", "lion-8bit"
]  # fmt: skip


class Job(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """The training, in the words of its flags. None: not specified."""

    device: Literal["auto", "cuda", "cpu", "mps"] = "auto"
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    recipe: Literal["amp", "pure-bf16"] | None = None
    """amp: low-precision compute over fp32 weights. pure-bf16: weights and optimizer in bf16."""
    checkpoint: str | None = None
    output_dir: str | None = None
    cache_dir: str | None = None
    working_dir: str = "."
    keep: AtLeastOne = 2
    """Checkpoints kept on disk at the same time."""
    params: Parameters | None = None
    """Parameters of the model to be trained."""
    trainable: Parameters | None = None
    """Parameters that receive gradients (LoRA); None means all."""
    shards: AtLeastOne = 1
    """GPUs that weights, gradients and optimizer state are split over (FSDP, ZeRO-3)."""
    gpus: AtLeastOne | None = None
    python: str | None = None
    model: str | None = None
    """FILE.py:factory, the user's own model and batch."""
    arguments: Arguments = ()
    """Command-line arguments that the code of `model` sees."""
    hf: str | None = None
    """Directory of a transformers model."""
    data: str | None = None
    """FILE.py:make, or a file or directory of rows: what the model in `hf` is trained on."""
    layers: AtLeastOne | None = None
    """Layers of the model in `hf` that are kept; None: as many as a short step needs."""
    weights: bool = False
    """Load the weights in `hf` instead of drawing random ones."""
    probes: bool = True
    """Try changed batches in a copy of the process, after the judged steps of `model` or `hf`."""
    lora: AtLeastOne | None = None
    """Rank of the LoRA adapters that train."""
    optimizer: Optimizer = "adamw"
    checkpointing: bool | None = None
    """Gradient checkpointing."""
    expect_no_grad: tuple[str, ...] = ()
    """Patterns of parameters that are detached by design."""
    compile: bool = False
    batch_size: AtLeastOne | None = None
    """Samples per GPU and step."""
    seq_len: AtLeastOne | None = None
    """Tokens per sample."""
    attention: tuple[AtLeastOne, AtLeastOne, AtLeastOne, AtLeastOne] | None = None
    """Batch, heads, tokens, head dimension of the job's own attention."""
    attention_mask: Literal["causal", "padding", "none"] | None = None
    """causal: no other mask. padding: a mask, causal or not. none: not causal."""

    @property
    def trains_own(self) -> bool:
        """Whether it names a training of the user's."""
        return self.model is not None or self.hf is not None

    @property
    def pure_bf16(self) -> bool:
        """Whether weights and optimizer state are bf16, without fp32 masters."""
        return self.recipe == "pure-bf16"


class Target(msgspec.Struct, frozen=True):
    """The kind of device that the job trains on, and why."""

    kind: TargetKind
    why: str

    @property
    def on_cuda(self) -> bool:
        """Whether torch calls its GPUs cuda, as it does those of ROCm."""
        return self.kind in ON_CUDA


class Chosen(msgspec.Struct, frozen=True):
    """The precision the job runs in, and why."""

    precision: Precision
    why: str


def choose_precision(
    job: Job,
    target: Target,
    capability: tuple[int, int] | None,
    macos: tuple[int, int] | None = None,
) -> Chosen | None:
    """The requested precision, or the one that fits the device; None if the device is unknown.

    `capability` is the lowest compute capability among the GPUs of the job. The rule is the
    platform-aware choice of the source documents with `facts` corrections: bf16 from 8.0 on, on
    ROCm, on the CPU and on MPS from macOS 14; fp16 with a GradScaler on 7.x; fp32 below.
    """
    if job.pure_bf16:
        return Chosen("bf16", "--recipe pure-bf16")
    if job.precision != "auto":
        return Chosen(job.precision, f"--precision {job.precision}")
    if target.kind == "nvidia":
        return _for_capability(capability)
    if target.kind == "mps" and (macos is None or macos < (14, 0)):
        return Chosen("fp32", "bf16 on MPS needs macOS 14")
    return Chosen("bf16", f"bf16 runs on {target.kind}")


def _for_capability(capability: tuple[int, int] | None) -> Chosen | None:
    if capability is None:
        return None
    summary = f"compute capability {capability[0]}.{capability[1]}"
    if capability >= (8, 0):
        return Chosen("bf16", f"{summary} has native bf16")
    if capability >= (7, 0):
        return Chosen("fp16", f"{summary} has fast fp16 and no native bf16")
    return Chosen("fp32", f"{summary} has neither native bf16 nor fast fp16")
