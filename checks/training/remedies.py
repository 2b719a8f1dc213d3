"""What mends a training, by the change that a search for the cause found to mend it."""

from __future__ import annotations

from typing import NamedTuple

from doctor.judge.check import Owner


class Cure(NamedTuple):
    """What a mending change means.

    `contrast` says how it is with the change, and without it.
    """

    contrast: tuple[str, str]
    cause: str
    fix: str
    owner: Owner
    sources: tuple[str, ...]


KERNELS = ("bts-quick", "bts-fix1", "bts-fix3")
QUICK = "(document bf16-training-stability, Quick Diagnostics)"
ENVIRONMENT, JOB = Owner.ENVIRONMENT, Owner.JOB
FRESH = "reinstall torch in a fresh environment; if that does not help, suspect the GPU"

ATTENTION = {
    "cudnn-off": Cure(
        ("without cuDNN attention", "with it"),
        f"cuDNN's attention kernel is the cause {QUICK}",
        "Call torch.backends.cuda.enable_cudnn_sdp(False) before training, or start it with "
        "TORCH_CUDNN_SDPA_DEPRIORITIZED=1 in the environment (torch 2.10 and newer). NUM003 tells "
        "the version that mends a known bug.",
        ENVIRONMENT,
        KERNELS,
    ),
    "flash-off": Cure(
        ("without cuDNN and flash attention", "with flash"),
        f"the flash attention kernel is the cause {QUICK}",
        "Call torch.backends.cuda.enable_flash_sdp(False) before training and, so that cuDNN does "
        "not step in, enable_cudnn_sdp(False) (torch 2.4 and newer); then upgrade torch and try "
        "again without them.",
        ENVIRONMENT,
        KERNELS,
    ),
    "math": Cure(
        ("with attention's math backend alone", "with the fused kernels"),
        f"the fused attention path is the cause {QUICK}",
        "Call torch.backends.cuda.enable_flash_sdp(False), enable_mem_efficient_sdp(False) and, "
        "from torch 2.4 on, enable_cudnn_sdp(False) before training. The math backend is slower "
        "and keeps every score in memory, so upgrade torch and try again without them.",
        ENVIRONMENT,
        KERNELS,
    ),
}
"""The same for the doctor's model and for the user's."""

SMALL = ATTENTION | {
    "eager": Cure(
        ("with attention spelled out", "with scaled_dot_product_attention"),
        "torch's own attention is the cause, its math backend included",
        "Load models with attn_implementation='eager' (transformers) until it is mended, and "
        + FRESH + ".",
        ENVIRONMENT,
        KERNELS,
    ),
    "fp32-weights": Cure(
        ("with fp32 weights", "with bf16 weights"),
        "half-precision weights are the cause",
        "Train with fp32 weights under autocast (--recipe amp). bf16 weights train this model on "
        "a sound machine, so also " + FRESH + ".",
        ENVIRONMENT,
        ("bts-fix2", "ps-P1", "ps-P4"),
    ),
    "fp32": Cure(
        ("in fp32", "in {precision}"),
        "{precision} arithmetic is the cause",
        "{precision} trains this model on a sound machine: look at NUM001 and TOR004, then " + FRESH
        + ". Until then train in fp32.",
        ENVIRONMENT,
        ("ps-P1", "ps-P8", "ps-P10"),
    ),
    "lower-lr": Cure(
        ("at a tenth of the learning rate", "at {lr}"),
        "the update is the cause",
        "This model trains at {lr} on a sound machine, so an optimizer's kernel is wrong: "
        + FRESH + ".",
        ENVIRONMENT,
        ("ps-P12", "ps-P18"),
    ),
    "other-batch": Cure(
        ("on another batch", "on this one"),
        "the batch is the cause",
        "The batch is the doctor's own and sound, so the numbers that meet are a kernel's weak "
        "point: " + FRESH + ".",
        ENVIRONMENT,
        ("ps-P8", "ps-P11"),
    ),
    "bad batch": Cure(
        ("on another batch", "on this one"),
        "the batch is the cause",
        "The doctor's own batch is sound, so it was damaged on its way to the device: " + FRESH
        + ".",
        ENVIRONMENT,
        ("ps-P11",),
    ),
    "bad weights": Cure(
        ("", ""),
        "the weights are the cause",
        "The doctor's own weights are finite when they are drawn, so they were damaged on their "
        "way to the device: " + FRESH + ".",
        ENVIRONMENT,
        ("ps-P8", "ps-P17"),
    ),
    "intermittent": Cure(
        ("", ""),
        "it comes and goes with the same numbers",
        "The same numbers gave another result, which is a race in a library or a failing device: "
        "look at GPU003 and, for an Xid, at dmesg; run the doctor again, then on another GPU in "
        "the same environment. Give the machine back if it happens on this GPU alone.",
        ENVIRONMENT,
        ("ps-P8", "ps-P19"),
    ),
    "nothing": Cure(
        ("", ""),
        "torch's installation or the GPU is to be suspected",
        "This model trains on a sound machine and nothing that was changed mends it, so "
        + FRESH + ".",
        ENVIRONMENT,
        ("bts-quick", "ps-P1", "ps-P8"),
    ),
}  # fmt: skip

OWN = ATTENTION | {
    "eager": Cure(
        ("with eager attention", "with the attention that the model loads"),
        "its attention implementation is the cause",
        "Load the model with attn_implementation='eager'. If it loads flash_attention_2 or "
        "another package's kernel, upgrade that package: torch's own switches do not reach it.",
        ENVIRONMENT,
        KERNELS,
    ),
    "fp32-weights": Cure(
        ("with fp32 weights", "with half-precision weights"),
        "half-precision weights are the cause",
        "Keep the weights in fp32 and compute in half precision under autocast: load the model "
        "with dtype=torch.float32 (torch_dtype before transformers 4.56; from 5 on the default is "
        "the checkpoint's own, often bf16), and call neither .half() nor .bfloat16() on it.",
        JOB,
        ("bts-fix2", "ps-P1", "ps-P4"),
    ),
    "fp32": Cure(
        ("in fp32", "in {precision}"),
        "{precision} arithmetic is the cause, not the model's mathematics",
        "Keep the part that breaks in fp32, inside torch.autocast(device, enabled=False) with its "
        "inputs as .float(). fp16 overflows above 65504: bf16, where the GPU has it, does not. "
        "bf16 has fp32's range, so with bf16 a kernel is the more likely culprit: upgrade the "
        "library that it comes from.",
        JOB,
        ("ps-P1", "ps-P8", "ps-P10"),
    ),
    "lower-lr": Cure(
        ("at a tenth of the learning rate", "at {lr}"),
        "the learning rate is too high for these first steps",
        "Lower the learning rate, warm it up from 0 over the first steps, and clip the gradients "
        "(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)). Inputs that are far from 1 in "
        "size have the same effect: normalise them.",
        JOB,
        ("ps-P12", "ps-P13", "ps-P18"),
    ),
    "other-batch": Cure(
        ("on another batch", "on this one"),
        "this batch is the cause",
        "Look at this batch: values far out of range, a row that is masked entirely, a target of "
        "all zeros. Check every batch before it is trained on, and say which one it was.",
        JOB,
        ("ps-P11", "ps-P13"),
    ),
    "bad batch": Cure(
        ("on another batch", "on this one"),
        "the batch is the cause",
        "Mend the data, and check every batch before it is trained on: "
        "torch.isfinite(inputs).all(), 0 <= labels < classes except for the ignored -100, tokens "
        "inside the vocabulary, no sample longer than the model's positions (--seq-len), and at "
        "least one label that counts.",
        JOB,
        ("ps-P11",),
    ),
    "bad weights": Cure(
        ("", ""),
        "the weights are the cause",
        "Load or initialise them anew. --checkpoint PATH looks for such values in the files "
        "(CKP005); a parameter made with torch.empty, or materialised from the meta device, holds "
        "what the memory held.",
        JOB,
        ("ps-P8", "ps-P17"),
    ),
    "intermittent": Cure(
        ("", ""),
        "it comes and goes",
        "Seed what draws at random (torch, numpy, random), and look for torch.empty that is never "
        "filled. If SMK001 to SMK003 come and go too, a library or the device is at fault: look "
        "at GPU003 and, for an Xid, at dmesg.",
        JOB,
        ("ps-P11", "ps-P19"),
    ),
    "nothing": Cure(
        ("", ""),
        "the model's own code is the cause",
        "No kernel, precision, learning rate or batch is behind it. Where SMK001 to SMK003 pass, "
        "the machine and torch are sound.",
        JOB,
        ("ps-P8", "ps-P9", "ps-P18"),
    ),
}  # fmt: skip

STABLE = {
    "Sqrt": "torch.sqrt(x + 1e-12)",
    "Rsqrt": "torch.rsqrt(x + 1e-12)",
    "Log": "torch.log(x.clamp(min=1e-7))",
    "Div": "a / (b + 1e-8)",
    "Reciprocal": "1 / (x + 1e-8)",
    "Pow": "(x + 1e-12) ** p for p below 1",
    "Exp": "torch.exp(x.clamp(max=80))",
    "Softmax": "torch.nn.functional.log_softmax instead of log(softmax(x))",
    "LinalgVectorNorm": "torch.sqrt((x * x).sum(-1) + 1e-12), whose gradient at 0 is finite",
    "Norm": "torch.sqrt((x * x).sum(-1) + 1e-12), whose gradient at 0 is finite",
    "Acos": "torch.acos(x.clamp(-1 + 1e-6, 1 - 1e-6))",
    "Asin": "torch.asin(x.clamp(-1 + 1e-6, 1 - 1e-6))",
}
"""Operation in autograd -> a form of it whose value and gradient stay finite."""

ORIGINS = (
    "log or sqrt of 0 or less, a division by 0, exp of a large number, and 0 * inf after one of "
    "them are where NaNs come from: add an epsilon inside, clamp before, or use a fused form "
    "(log_softmax, cross_entropy)"
)
