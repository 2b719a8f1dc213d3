"""What sections of the source documents advise, and why some of it cannot be detected."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """What `doctor explain` prints of a section beside those who cite it."""

    text: str
    """What it advises, with its correction taken into account."""
    keywords: str = ""
    """Words that lead to it, beside those of its heading."""
    not_detectable: str = ""
    """Why no check sees it, or what a check does not see of it."""


ADVICE = {
    "ps-P1": Advice(
        "bf16 autocast from capability 8.0 on, fp16 autocast with a GradScaler below it, TF32 for "
        "the remaining matmuls, fp32 to find out whether precision is the cause.",
        "precision fp32 tf32 fp16 bf16 dtype ladder",
    ),
    "ps-P2": Advice(
        'Call torch.set_float32_matmul_precision("high") once; it works in every torch.',
        "tf32 matmul a100 slow allow_tf32",
    ),
    "ps-P3": Advice(
        "Choose the autocast dtype at run time, by the capability: 8.0 for bf16, 8.9 for fp8.",
        "capability ampere turing volta hopper v100 t4 fp8 bf16",
    ),
    "ps-P4": Advice(
        "Enter autocast around the forward pass and the loss only, keep the weights in fp32, and "
        "use torch.amp.autocast and torch.amp.GradScaler.",
        "autocast amp half dataparallel set_to_none",
    ),
    "ps-P5": Advice(
        "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update() in every step of "
        "fp16. The first steps may be skipped while the scale settles; steps skipped for ever are "
        "an overflow (P10).",
        "gradscaler scaler underflow fp16 loss scaling",
    ),
    "ps-P6": Advice("No GradScaler in bf16 runs.", "gradscaler scaler bf16"),
    "ps-P7": Advice(
        "scaler.scale(loss).backward(); scaler.unscale_(optimizer), once; clip_grad_norm_; "
        "scaler.step(optimizer); scaler.update(). Without a scaler clip directly.",
        "unscale clip clipping clip_grad_norm gradient scaler max_norm",
    ),
    "ps-P8": Advice(
        "Use fused forms (F.cross_entropy, F.logsigmoid, BCEWithLogitsLoss), clamp before log, "
        "sqrt and divisions, in fp32.",
        "nan inf log sqrt division exp epsilon eps softmax",
    ),
    "ps-P9": Advice(
        "Run once under torch.autograd.detect_anomaly() and turn it off again. doctor run --model "
        "finds the first operation without it.",
        "anomaly detect_anomaly hook nan find",
    ),
    "ps-P10": Advice(
        "Use bf16; where the card has none, compute logits, attention scores and the loss in fp32.",
        "overflow 65504 fp16 scaler scale underflow",
    ),
    "ps-P11": Advice(
        "Check every batch: finite inputs, labels inside the classes, sequences that are not "
        "empty. With a seeded loader, a NaN that comes at the same step in two runs is the data's; "
        "one at changing steps is numerical.",
        "data batch nan sample label corrupt reproducible step",
    ),
    "ps-P12": Advice(
        "Warm up over 1 to 10 % of the steps, lower the peak rate by 3 to 10 times, log the "
        "gradient norm (it rises before the loss), resume from before the spike.",
        "spike divergence learning rate lr warmup warm-up",
    ),
    "ps-P13": Advice(
        "Clip the global norm to between 0.5 and 1.0 in every step.",
        "clip clipping max_grad_norm gradient norm max_norm",
    ),
    "ps-P14": Advice(
        "Step only if the gradient norm is finite, and count the steps that were skipped. ZClip "
        "and SPAM do more of this by themselves.",
        "skip batch nonfinite zclip spam gate finite",
        "the checkpoint or the script does not show whether a skipped step would have been "
        "harmful; non-finite values that were stored are CKP005.",
    ),
    "ps-P15": Advice(
        "Add 1e-4 * logsumexp(logits)^2, averaged over the tokens, to the loss.",
        "z-loss zloss logits logsumexp drift router moe",
        "logits that drift need the trend of thousands of steps; whether a loss contains the term "
        "cannot be seen from outside. Log the mean of logsumexp(logits).",
    ),
    "ps-P16": Advice(
        "Normalize queries and keys in every head before their product.",
        "qk-norm qk norm attention logits layernorm high learning rate",
        "a model without it is not at fault: it matters at learning rates that a few steps do not "
        "reach. Log the largest attention logit of an eager run.",
    ),
    "ps-P17": Advice(
        "Scale the initial weights of residual branches by 1/sqrt(2 * layers), use pre-LN in deep "
        "stacks, embeddings with a standard deviation of about 0.02, or copy a known scheme.",
        "initialization init pre-ln post-ln embedding std residual depth",
        "whether an initialization suits a depth shows after hundreds of steps. A loss far above "
        "ln(classes) at the first step is a hint.",
    ),
    "ps-P18": Advice(
        "Log the gradient norm from the first step on. Explosion: clip, lower the rate, warm up, "
        "bf16 in place of fp16. Vanishing: residual connections, normalization, other activations, "
        "and a rate that is not too low.",
        "gradient norm explosion vanishing per-layer",
    ),
    "ps-P19": Advice(
        "Seed torch, numpy and random, use deterministic algorithms, turn cudnn.benchmark off, and "
        "record all of it: doctor prescribe --deterministic prints the statements.",
        "deterministic determinism seed reproducible reproducibility benchmark cublas",
        "whether two runs differ for another reason than their seeds needs both runs.",
    ),
    "ps-U6": Advice("Free space before saving.", "disk full enospc"),
    "ps-U9": Advice(
        "Raise the container's memory limit, or use fewer and smaller workers.",
        "killed oom cgroup memory sigkill",
    ),
    "ps-U10": Advice("Smaller batches, checkpointing, or a larger GPU.", "cuda oom vram memory"),
    "ps-U11": Advice("Smaller batches, checkpointing, or a larger GPU.", "cuda oom vram memory"),
    "ps-U28": Advice(
        "Install a torch that is built for this driver and GPU.",
        "driver mismatch kernel image no kernel cuda version",
    ),
    "ps-U36": Advice(
        "Repeat the run with several seeds and compare the spread.",
        "variance nondeterminism real effect",
        "the document leaves it to another one, which is not part of the doctor's sources.",
    ),
    "bts-fix1": Advice("Use eager attention until a fused kernel was verified.", "eager sdpa"),
    "bts-fix2": Advice("Keep the weights in fp32 and compute under autocast.", "master weights"),
    "bts-fix3": Advice("Turn cuDNN attention off where it has bugs.", "cudnn sdpa flash"),
    "bts-fix4": Advice("Add a padding token and resize the embedding before PEFT.", "pad token"),
    "bts-fix5": Advice("Use one device, DDP, FSDP or ZeRO for training.", "device_map"),
    "bts-fix6": Advice("Compile once the eager step is stable.", "compile torch.compile"),
    "bts-fix7": Advice("Leave adapters in fp32.", "peft lora adapter"),
    "titan-platform": Advice("Choose the autocast dtype by the capability.", "platform dtype"),
    "fnr-rate": Advice("Look at the scheduler's state: the rate is not 0.", "scheduler rate zero"),
    "fnr-root": Advice("Train fp32 weights under autocast.", "frozen norms 1.0 bf16"),
    "cbl-fix": Advice("Pass use_reentrant=False.", "gradient checkpointing lora order"),
    "titan-inputs": Advice("Call enable_input_require_grads().", "requires_grad inputs warning"),
    "titan-flash": Advice("Nothing: a notice.", "flash attention notice", "it is harmless."),
    "titan-cache": Advice("Nothing: a notice.", "use_cache notice", "it is harmless."),
}

NARRATIVE = (
    "it is about how one run was examined or changed, or what was expected; it states nothing "
    "that a machine, a checkpoint or a script could be compared with."
)
"""Why a section without advice and without a citation is not detectable."""
