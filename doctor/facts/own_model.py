"""The user's own training, named with --model or --hf: what was built, tried and measured.

Frozen records without thresholds. Where the name of a field and its JSON key differ, the key is the
one that earlier facts files use.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from doctor._util.records import Ended, Number, Section, Unknown
from doctor._util.text_fields import Product
from doctor.facts.data import Data
from doctor.facts.raised import Raised
from doctor.facts.training import Settings, Smoke, Step


class Misuse(Section, frozen=True, kw_only=True):
    """A loss function of torch whose input or target is not of the kind that it expects."""

    function: str
    """As in torch.nn.functional: "cross_entropy"."""
    kind: Literal[
        "softmax", "sigmoid", "relu", "no log-probabilities", "broadcast", "negated", "targets",
        "positive", "signs", "no log target", "bounded", "padding", "several", "reduced",
        "cosines", "one row", "over samples", "repeated",
    ]  # fmt: skip
    """The activation that was applied before and that the loss applies itself; exponentials of the
    input of nll_loss that do not sum to 1; shapes that broadcast to a larger one than either; a
    loss that is the negative of the only function that it is made of; targets outside of [0, 1];
    targets beyond the range of the activation that made the input; targets that fill rows up; rows
    with more than one class; targets that are no signs, or not what log_target says; one number
    for all samples that is multiplied by what weighs each of them; cosines that a softmax cannot
    tell apart; and one of earlier versions. one row: it was computed of all samples and is compared
    with the target of each. over samples: the call reads values by label from a softmax over the
    samples. repeated: one target is compared with several predictions of its sample."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Of the input and the target."""


class Trend(Section, frozen=True, kw_only=True):
    """More steps on the same batch, after the ones that are judged."""

    losses: tuple[Number, ...] = ()
    """From the first step on, the judged ones included."""
    ran: int | None = None
    """Steps that were run, the judged ones included; fewer than `planned` if their time was over:
    then `losses` and what is recorded per step have the judged ones alone."""
    planned: int | None = None
    step_seconds: float | None = None
    """The middle one of the last steps, with what the doctor looks at in them."""
    classes: int | None = None
    """Classes of the cross entropy in the loss, if it has exactly one."""
    misused: tuple[Misuse, ...] = ()
    supervised: tuple[str, ...] = ()
    """Losses of a prediction and a target in the step: "cross_entropy", "mse_loss"."""
    reached: tuple[str, ...] = ()
    """Parameters that got a gradient in one of the further steps."""
    moved: tuple[str, ...] = ()
    """Parameters that the judged steps left as they were and a further step changed."""
    loss_factor: Number | None = None
    """The loss as a multiple of the only function of `supervised` that was called."""
    created: tuple[tuple[int, ...], ...] = ()
    """Shapes of parameters that each forward pass creates anew."""
    rates: tuple[float, ...] = ()
    """The highest learning rate in each step, the judged ones included."""
    norms: tuple[Number, ...] = ()
    """The norm of all gradients in each step, the judged ones included."""
    norm_in_fp32: Number | None = None
    """That norm without autocast, if the loss is the same in all steps; None: not tried."""
    discarded: tuple[str, ...] = ()
    """Parameters that the forward pass overwrites with values that do not depend on theirs."""
    writes: tuple[str, ...] = ()
    """Where a forward pass writes parameters whose updates it discards: "copy_ in train.py, line
    12"."""
    constant_norms: tuple[str, ...] = ()
    """Norms whose every statistic is that of one value: "layer_norm in train.py, line 12, of what
    0.weight, 0.bias compute"."""
    norms_of_two: tuple[str, ...] = ()
    """The same of two values, which become 1 and -1."""
    single_keys: tuple[str, ...] = ()
    """Calls of attention in which each query sees one key: "multi_head_attention_forward in
    train.py, line 12 in encoder (MultiheadAttention)"."""
    inverted_masks: tuple[str, ...] = ()
    """Calls of attention whose mask hides the tokens and shows the padding: "scaled_dot_product_
    attention in train.py, line 12 shows token 0 alone"."""
    backward_masks: tuple[str, ...] = ()
    """Calls of attention whose mask hides exactly the own and the earlier keys of each query."""
    large_weights: tuple[str, ...] = ()
    """Layers whose weights enlarge what they get, and how far: "net.0, 11 times"."""
    saturated: tuple[str, ...] = ()
    """Activations most of whose inputs are where they are flat: "92 % of what sigmoid in train.py,
    line 12 gets"."""
    heavy_dropouts: tuple[str, ...] = ()
    """Dropouts that leave less than a tenth of the values: "drop, p 0.95"."""
    hasty_norms: tuple[str, ...] = ()
    """Batch norms whose statistics are nearly those of the last batch: "bn1, momentum 0.99"."""
    fresh_heads: tuple[str, ...] = ()
    """Heads of a task that adapters leave frozen, with the numbers that they were initialized
    with: "score (Linear)"."""
    masked_attention: bool | None = None
    """Whether a call of scaled_dot_product_attention had a mask or was not causal; None: there was
    no such call."""
    single_tokens: tuple[str, ...] = ()
    """The same of sequences that have one token by themselves."""
    single_steps: tuple[str, ...] = ()
    """Weights of the state of recurrent layers that run once, for one step from a state of 0:
    "encoder.weight_hh_l0"."""
    resident: tuple[int, ...] = ()
    """Bytes of memory after each of the last steps: the device's allocator, on a CPU the
    process."""


class Trial(Section, frozen=True, kw_only=True):
    """One trial of the model after the judged steps, in a copy of the process."""

    name: Literal[
        "broadcasts", "samples", "tokens", "axes", "functions", "evaluation", "parts",
        "penalties", "last batch", "rounding",
    ]  # fmt: skip
    """broadcasts: arithmetic of the output of a Linear with a target, and of a value for each
    sample with another dimension. samples: a changed sample, and the outputs of others. tokens: a
    changed last token, and the predictions before it. axes: views and softmaxes on another axis
    than the one they are meant for. functions: the backward pass of each own autograd.Function for
    a gradient of zeros. evaluation: dropout and buffers in eval(). parts: a part of the batch
    that is changed, and the loss. penalties: what is in the loss beside the only loss of torch, on
    other samples and with other weights. last batch: that of an epoch, which has fewer samples than
    the others. rounding: gradients in float32 and in float64."""
    applies: bool
    reason: str = ""
    """Why it does not apply."""
    found: Literal[
        "", "broadcast", "crossed", "rows", "samples", "tokens", "positions", "unshifted", "twice",
        "alike", "map", "axes", "queries", "masked rows", "doubled", "functions", "dropout",
        "buffers", "unused", "rounding", "future", "offset", "patches", "penalty", "last",
    ] = ""  # fmt: skip
    """positions: of tokens, from one module on, although each attention has a mask. unshifted:
    predictions of a token that the model gets at the same position."""
    operation: str = ""
    """What explains it, "" if nothing that was seen does."""
    place: str = ""


class PartialLoad(Section, frozen=True, kw_only=True):
    """A call of load_state_dict(strict=False) that left out values of what it got, or got none."""

    given: int
    """Values that it got."""
    unused: int
    """Those of them that the model has no place for."""
    missing: tuple[str, ...] = ()
    """Keys of the model that it did not get, at most 200."""
    unexpected: tuple[str, ...] = ()
    """Keys that the model does not have, at most 200."""


class OtherSeed(Section, frozen=True, kw_only=True):
    """The same training, whose factory was called once more with other random numbers."""

    seed: int
    """Of torch, random and numpy, set before the factory was called."""
    smoke: Smoke | None = None
    """Its steps; None: they were not run."""
    reason: str = ""
    """Why they were not run, or why what they showed does not count."""


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
    raised: Raised | None = None
    """The error, if it raised one whose message is not the doctor's own."""
    stack: tuple[str, ...] = ()
    """Lines of Python that it was in when it crashed or hung, the innermost first."""
    printed: tuple[str, ...] = ()
    """The last lines that it printed before it failed."""
    assertion: str = ""
    """The first assertion that failed in a kernel of the GPU, as it was printed: "Loss.cu:245,
    nll_loss_forward_reduce_cuda_kernel_2d: `t >= 0 && t < n_classes` failed"."""
    without_kernel: str = ""
    """The error of oneDNN, which has no kernel for a layer in the job's precision on this CPU, so
    that the steps were run in fp32."""
    in_half: OwnModel | None = None
    """The same steps in the half precision that nobody asked for, which raised an error of dtypes;
    the record has those in fp32, which complete."""
    half_asked: str = ""
    """Where the user's code asks for half precision: "train.py", "the arguments of the Trainer"."""
    without_autocast: Ended | None = None
    """How one more forward and backward pass ended, without the autocast of a half precision that
    nobody asked for; None: not tried."""
    hidden_in: str = ""
    """That half precision, "bf16", in which the same steps complete; those of the record, which
    fail, are in fp32."""
    busy: bool | None = None
    """Whether it computed when its time was over, rather than waiting; None: it ended in time."""
    versions: dict[str, Product] = {}
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
    trials: tuple[Trial, ...] = ()
    slower: tuple[tuple[float, tuple[Number, ...]], ...] = ()
    """Shares of the learning rate, and the losses of the same steps with it; recorded where the
    loss explodes in them."""
    unregistered: tuple[str, ...] = ()
    """Tensors that get a gradient, are held by a module, and are no parameters of the model:
    "hidden[0].weight" of a plain list of layers."""
    of_loss: tuple[str, ...] = ()
    """Parameters of the loss function that get a gradient and are in no group of the user's
    optimizer: "ArcMargin.weight"."""
    ineffective: tuple[str, ...] = ()
    """Flags without effect: "classifier.requires_grad = True" of a module, whose parameters do not
    follow; "require_grad = False of 0.weight", which is not the name of torch."""
    untied: tuple[str, ...] = ()
    """Weights that are meant to be one and are two: "head.weight starts as a copy of wte.weight, in
    spite of tie_weights()"."""
    of_defaults: tuple[str, ...] = ()
    """Modules that a default argument made once for several places: "norm=LayerNorm of Block is
    blocks.0.norm, blocks.1.norm and 2 more"."""
    changed_batch: tuple[str, ...] = ()
    """Tensors of a batch that is no loader's, which a step changed in place."""
    partial_loads: tuple[PartialLoad, ...] = ()
    removed_columns: tuple[str, ...] = ()
    """Columns of the samples that a Trainer removed, as forward has no argument of that name."""
    in_other_batches: tuple[str, ...] = ()
    """Parameters without a gradient in the first steps that got one in other batches of the
    loader."""
    batch_number: int = 0
    """Of the batch that was trained on; more than 0 where the loss and all gradients of those
    before it are 0."""
    routed: tuple[str, ...] = ()
    """Parameters without a gradient in the first steps that got one with other weights."""
    unsearched: str = ""
    """Why other weights were not tried, or not to the end; "" where they were."""
    in_evaluation: str = ""
    """Modules of a model that the factory leaves in evaluation mode, though all of it trains:
    "BatchNorm2d, Dropout"; "" where it does not, or where that may be meant so."""
    turned_off: str = ""
    """Modules that the loss turns to evaluation, with the whole model, before it trains them."""
    settings: Settings | None = None
    batch: tuple[BatchTensor, ...] = ()
    has_loader: bool = False
    """Its batch is one of a loader, of which `data` in Facts has more."""
    data: Data | None = None
    """Of a batch of tokens with labels, and where the loss reads them."""
    pad_id: int | None = None
    """The padding token of the directory's tokenizer."""
    outside_tokens: int = 0
    """Ordinary tokens of that tokenizer that the model has no embedding of."""
    vocabulary: int | None = None
    """Tokens that the model has an embedding of."""
    initialized: tuple[str, ...] = ()
    """Parameters that the directory's weights do not hold, outside of the layers."""
    quantization: str = ""
    """The method by which config.json quantizes the weights; "" if it does not."""
    scalers: tuple[Scaler, ...] = ()
    """Recorded for fp16 only."""
    points: tuple[MemoryPoint, ...] | Unknown = ()
    saved_weights: int | None = None
    """Bytes that torch.save would write of the model's state dict; nothing is written."""
    saved_optimizer: int | None = None
    layers: int | None = None
    """Layers of a model directory as built, and according to its config.json."""
    all_layers: int | None = None
    whole_error: str | None = None
    """The error of the same model with all its layers, built and run forward without memory; "" if
    it has none; None: not tried, or not decided."""
    failed_depths: tuple[int, ...] = ()
    """Smaller numbers of layers with which the same training failed."""
    whole: bool = True
    """False: layers were cut, so bytes and counts are not those of the job."""
    all_parameters: int | None = None
    """Of the model with all its layers, counted without memory; None: it was not cut."""
    lora: tuple[LoraOrder, ...] = ()
    compiled: Compiled | None = None

    @property
    def idle(self) -> dict[str, str]:
        """Parameters without a gradient in the first steps that need none -> why."""
        if self.smoke is None:
            return {}
        optimizer = self.smoke.optimizer
        reasons = {
            "one step": self.trend.single_steps if self.trend else (),
            "in other steps": self.trend.reached if self.trend else (),
            "in other batches": self.in_other_batches,
            "with other weights": self.routed,
            "copies": tuple(each.name for each in self.smoke.parameters if each.copied),
            "not optimized": optimizer.omitted if optimizer else (),
        }
        without = {each.name for each in self.smoke.parameters if not each.had_gradient}
        return {
            name: reason for reason, names in reasons.items() for name in names if name in without
        }
