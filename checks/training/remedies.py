"""Remedies of a faulty training, by the change that fixes it in the bisection."""

from __future__ import annotations

from typing import NamedTuple

from doctor.judge.check import Owner


class Remedy(NamedTuple):
    """The cause that a change points to, and its fix.

    `contrast` describes the training with the change, and without it. The first line of `fix` is a
    sentence of its own; a command has a line of its own.
    """

    contrast: tuple[str, str]
    cause: str
    fix: str
    owner: Owner
    sources: tuple[str, ...]


KERNELS = ("bts-quick", "bts-fix1", "bts-fix3")
QUICK = "(document bf16-training-stability, Quick Diagnostics)"
ENVIRONMENT, JOB = Owner.ENVIRONMENT, Owner.JOB
NO_CONTRAST = ("", "")
REINSTALL = "Reinstall torch in a fresh environment. If that does not help, suspect the GPU."
RATES = {
    "lower-lr": ("at a tenth of the learning rate", "at {lr}"),
    "lowest-lr": ("at a ten-thousandth of the learning rate", "at {lr}"),
    "no-lr": ("at a learning rate of 0", "at {lr}"),
}
"""Changes of the learning rate -> the training with them, and without."""

ATTENTION = {
    "cudnn-off": Remedy(
        ("without cuDNN attention", "with it"),
        f"cuDNN's attention kernel is the cause {QUICK}",
        "Switch cuDNN attention off before training.\n"
        "torch.backends.cuda.enable_cudnn_sdp(False)\n"
        "From torch 2.10 on, TORCH_CUDNN_SDPA_DEPRIORITIZED=1 in the environment has the same "
        "effect. NUM003 names the version that fixes a known bug.",
        ENVIRONMENT,
        KERNELS,
    ),
    "flash-off": Remedy(
        ("without cuDNN and flash attention", "with flash"),
        f"the flash attention kernel is the cause {QUICK}",
        "Switch flash attention off before training, and cuDNN attention so that it does not "
        "replace it (torch 2.4 and newer).\n"
        "torch.backends.cuda.enable_flash_sdp(False)\n"
        "torch.backends.cuda.enable_cudnn_sdp(False)\n"
        "Then upgrade torch and try again without these calls.",
        ENVIRONMENT,
        KERNELS,
    ),
    "math": Remedy(
        ("with attention's math backend alone", "with the fused kernels"),
        f"the fused attention path is the cause {QUICK}",
        "Switch the fused attention kernels off before training (cuDNN's from torch 2.4 on).\n"
        "torch.backends.cuda.enable_flash_sdp(False)\n"
        "torch.backends.cuda.enable_mem_efficient_sdp(False)\n"
        "torch.backends.cuda.enable_cudnn_sdp(False)\n"
        "The math backend is slower and stores the whole score matrix, so upgrade torch and try "
        "again without these calls.",
        ENVIRONMENT,
        KERNELS,
    ),
}
"""The same for the doctor's model and for the user's."""

SMALL = ATTENTION | {
    "eager": Remedy(
        ("with eager attention", "with scaled_dot_product_attention"),
        "torch's own attention is the cause, its math backend included",
        REINSTALL + " Until then load models with attn_implementation='eager' (transformers).",
        ENVIRONMENT,
        KERNELS,
    ),
    "fp32-weights": Remedy(
        ("with fp32 weights", "with bf16 weights"),
        "half-precision weights are the cause",
        "Train with fp32 weights under autocast (--recipe amp). This model trains with bf16 "
        "weights on a sound machine, so also reinstall torch in a fresh environment; if that does "
        "not help, suspect the GPU.",
        ENVIRONMENT,
        ("bts-fix2", "ps-P1", "ps-P4"),
    ),
    "fp32": Remedy(
        ("in fp32", "in {precision}"),
        "{precision} arithmetic is the cause",
        "Train in fp32 until this is fixed. This model trains in {precision} on a sound machine: "
        "see NUM001 and TOR004, then reinstall torch in a fresh environment; if that does not "
        "help, suspect the GPU.",
        ENVIRONMENT,
        ("ps-P1", "ps-P8", "ps-P10"),
    ),
    **{
        change: Remedy(
            contrast,
            "the update is the cause",
            f"{REINSTALL} This model trains at {{lr}} on a sound machine, so an optimizer kernel "
            "is wrong.",
            ENVIRONMENT,
            ("ps-P12", "ps-P18"),
        )
        for change, contrast in RATES.items()
    },
    "other-batch": Remedy(
        ("on another batch", "on this one"),
        "the batch is the cause",
        REINSTALL + " The batch is the doctor's own and valid, so a kernel fails for its values.",
        ENVIRONMENT,
        ("ps-P8", "ps-P11"),
    ),
    "valid-batch": Remedy(
        ("with these values replaced", "with them"),
        "the batch is the cause",
        REINSTALL + " The doctor's own batch is valid, so it was corrupted on its way to the "
        "device.",
        ENVIRONMENT,
        ("ps-P11",),
    ),
    "finite-weights": Remedy(
        ("with these values replaced", "with them"),
        "the weights are the cause",
        REINSTALL + " The doctor's own weights are finite when they are initialized, so they were "
        "corrupted on their way to the device.",
        ENVIRONMENT,
        ("ps-P8",),
    ),
    "intermittent": Remedy(
        NO_CONTRAST,
        "the fault is intermittent with identical inputs",
        "Run the doctor again, then on another GPU with the same environment. Identical inputs "
        "gave different results, which is a race in a library or a failing device: see GPU003, "
        "and dmesg for an Xid. If it happens on this GPU alone, return the machine.",
        ENVIRONMENT,
        ("ps-P8", "ps-P19"),
    ),
    "nothing": Remedy(
        NO_CONTRAST,
        "suspect torch's installation or the GPU",
        REINSTALL + " This model trains on a sound machine, and no change fixes the fault here.",
        ENVIRONMENT,
        ("bts-quick", "ps-P1", "ps-P8"),
    ),
}


LOWER_LR = (
    "Lower the learning rate, warm it up from 0 over the first steps, and clip the gradients.\n"
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    "Inputs of a scale far from 1 have the same effect: normalize them."
)
OWN = ATTENTION | {
    "eager": Remedy(
        ("with eager attention", "with the model's own attention implementation"),
        "its attention implementation is the cause",
        "Load the model with attn_implementation='eager'. If it uses flash_attention_2 or another "
        "package's kernel, upgrade that package: torch's switches do not affect it.",
        ENVIRONMENT,
        KERNELS,
    ),
    "fp32-weights": Remedy(
        ("with fp32 weights", "with half-precision weights"),
        "half-precision weights are the cause",
        "Keep the weights in fp32 and compute in half precision under autocast. Load the model "
        "with dtype=torch.float32 (torch_dtype before transformers 4.56; since version 5 the "
        "default is the checkpoint's dtype, often bf16), and call neither .half() nor .bfloat16() "
        "on it.",
        JOB,
        ("bts-fix2", "ps-P1", "ps-P4"),
    ),
    "fp32": Remedy(
        ("in fp32", "in {precision}"),
        "{precision} arithmetic is the cause, not the model's mathematics",
        "Compute the failing part in fp32, inside torch.autocast(device, enabled=False) with its "
        "inputs as .float(). fp16 overflows above 65504; bf16 does not, if the GPU supports it. "
        "bf16 has the range of fp32 but 8 significant bits: 1 + 0.001 is 1, and the difference of "
        "close values is 0. If the line that is named needs no more, upgrade the library that "
        "provides its kernel.",
        JOB,
        ("ps-P1", "ps-P8", "ps-P10"),
    ),
    **{
        change: Remedy(
            contrast,
            "the update is the cause, at a ten-thousandth of that rate too"
            if change == "no-lr"
            else "the learning rate is too high for these first steps",
            LOWER_LR,
            JOB,
            ("ps-P12", "ps-P13", "ps-P18"),
        )
        for change, contrast in RATES.items()
    },
    "lower-lr and a domain": Remedy(
        ("at a lower learning rate", "at {lr}"),
        "an update moves the inputs of that operation out of its domain",
        "A lower learning rate delays this and does not exclude it.",
        JOB,
        ("ps-P8", "ps-P12"),
    ),
    "other-batch": Remedy(
        ("on another batch", "on this one"),
        "this batch is the cause",
        "Inspect this batch for extreme values, a fully masked row, or a target of zeros only. "
        "Validate every batch before training on it, and log which one failed.",
        JOB,
        ("ps-P11", "ps-P13"),
    ),
    "valid-batch": Remedy(
        ("with these values replaced", "with them"),
        "the batch is the cause",
        "Fix the data, and validate every batch before training on it: "
        "torch.isfinite(inputs).all(), 0 <= labels < classes except for the ignored -100, token "
        "ids inside the vocabulary, no sample longer than the model's positions (--seq-len), and "
        "at least one label that is not ignored.",
        JOB,
        ("ps-P11",),
    ),
    "valid-index": Remedy(
        ("with these indices replaced", "with them"),
        "an index that the code computes is the cause",
        "Correct the computation in that line so that it stays within the table, or give the table "
        "as many rows as it reaches.",
        JOB,
        ("ps-P11",),
    ),
    "finite-weights": Remedy(
        ("with these values replaced", "with them"),
        "the weights are the cause",
        "Load weights that are finite, if these are loaded: an earlier checkpoint, from before the "
        "training diverged, or the file again; --checkpoint PATH finds such values in files "
        "(CKP005). Otherwise look at the code that computes them: a buffer of the constructor for "
        "a division by 0 or a log of 0, a parameter from torch.empty or the meta device for values "
        "that nothing initializes.",
        JOB,
        ("ps-P8",),
    ),
    "intermittent": Remedy(
        NO_CONTRAST,
        "the fault is intermittent",
        "Seed all random number generators (torch, numpy, random), and look for uses of "
        "torch.empty that are never filled. If SMK001 to SMK003 are intermittent as well, a "
        "library or the device is at fault: see GPU003, and dmesg for an Xid.",
        JOB,
        ("ps-P19",),
    ),
    "nothing": Remedy(
        NO_CONTRAST,
        "look at the model, the loss and the batch",
        "Debug the model, the loss and the batch.",
        JOB,
        ("ps-P8", "ps-P9", "ps-P18"),
    ),
}
