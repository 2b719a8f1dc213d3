"""Known errors, crashes and hangs of a training step, with their fixes."""

from __future__ import annotations

from doctor.facts.error_texts import NO_SUCH_PRECISION
from doctor.judge.check import Owner
from doctor.judge.error_patterns import KILLED, LIBRARY_PATTERNS, ErrorPattern

ERRORS = (
    ErrorPattern(
        ("does not require grad",),
        "Make the loss depend on a trainable parameter: look for .detach(), .item(), no_grad() and "
        "frozen weights. With LoRA and reentrant gradient checkpointing (the default of "
        "transformers 4.31 to 4.57) call model.enable_input_require_grads(), or pass "
        "gradient_checkpointing_kwargs={'use_reentrant': False}; both work in either order.",
        Owner.JOB,
        ("cbl-fix",),
    ),
    ErrorPattern(
        ("_amp_foreach_non_finite_check", "Attempting to unscale FP16 gradients"),
        "Keep the weights in fp32, or train in bf16 without a GradScaler: a GradScaler does not "
        "work with half-precision weights.",
        Owner.JOB,
        ("titan-why", "pytorch-127176"),
    ),
    ErrorPattern(
        NO_SUCH_PRECISION,
        "Choose another precision with --precision, or install a newer torch: this one does not "
        "support this precision on this device.",
    ),
    *LIBRARY_PATTERNS,
    KILLED,
)

CRASHED = (
    "Check TOR004, LD_LIBRARY_PATH and LD_PRELOAD first, then reinstall torch in a fresh "
    "environment: incompatible libraries crash like this. If it crashes there too, suspect the "
    "driver or the GPU: dmesg shows an Xid for a GPU that failed."
)
HUNG = (
    "Run again with nothing else on the machine. If it hangs again in a fresh environment, suspect "
    "the driver or the GPU: dmesg shows an Xid for a GPU that failed."
)
