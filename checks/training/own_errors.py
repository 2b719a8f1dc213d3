"""Errors of the user's own training by their messages: of a step, and of the build."""

from __future__ import annotations

from doctor.checks.training import own_parameters, smoke_errors
from doctor.facts.error_texts import INDEX
from doctor.facts.training import NO_LOSS
from doctor.judge.check import Owner
from doctor.judge.error_patterns import ErrorPattern

CONTRACT = "doctor explain model"
"""The command that lists what a factory may return."""
INDEX_ERROR = ErrorPattern(
    (*INDEX, "device-side assert"),
    "Fix the index that exceeds its table: a token beyond the rows of the embedding (call "
    "resize_token_embeddings after adding tokens), a label outside the classes, a position "
    "beyond the model's length, or an index into a tensor. CUDA_LAUNCH_BLOCKING=1 names the "
    "call on a GPU.",
    Owner.JOB,
)
ERRORS = (
    ErrorPattern(
        ("is not installed in this interpreter",),
        "Install it into the training environment, or select another one with --python.",
        Owner.ENVIRONMENT,
    ),
    ErrorPattern(
        NO_LOSS,
        "Return the loss from the forward pass (.loss, a key 'loss' or a scalar tensor), or return "
        "(module, batch, loss) from the factory, where loss(module, batch) is a scalar tensor:\n"
        "return model, batch, lambda model, batch: criterion(model(batch['x']), batch['y'])\n"
        f"{CONTRACT}",
        Owner.JOB,
    ),
    ErrorPattern(
        ("out of memory",),
        "Reduce the memory of the step: a smaller batch, gradient checkpointing, LoRA, or a larger "
        "GPU; see MEM001.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("index -100 is out of bounds",),
        "Replace the ignored labels before they are used as an index: -100 is the label that "
        "torch's losses ignore, and no index. Use labels.clamp(min=0), and mask the result where "
        "labels == -100.",
        Owner.JOB,
    ),
    ErrorPattern(
        (
            "not positive-definite",
            "matrix is singular",
            "is zero, the inversion",
            "ill-conditioned",
        ),
        "Add a small multiple of the identity before this operation, x + 1e-4 * torch.eye(n), and "
        "compute it in fp32 or fp64: the matrix has an eigenvalue of 0 or less.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("to satisfy the constraint", "to satisfy Real()"),
        "Pass valid parameters to the distribution: softplus(x) + 1e-6 or exp for a scale, logits= "
        "instead of probs= for raw outputs. If the message shows nan, look for its first place: an "
        "input, a weight or a division before this line.",
        Owner.JOB,
    ),
    INDEX_ERROR,
    ErrorPattern(
        ("_amp_foreach_non_finite_check", "Attempting to unscale FP16 gradients"),
        "Load the weights with dtype=torch.float32, or train in bf16 without a GradScaler: a "
        "GradScaler does not work with half-precision weights, see NUM005.",
        Owner.JOB,
        ("titan-why", "pytorch-127176"),
    ),
    ErrorPattern(
        ("not implemented for 'BFloat16'", "not implemented for 'Half'"),
        "Compute this operation in fp32: torch has no kernel for it in half precision, and "
        "autocast does not convert its input. Call it with x.float():\n"
        "with torch.autocast('cuda', enabled=False):",
        Owner.JOB,
    ),
    *smoke_errors.ERRORS,
)
LIBRARIES = ("cuda", "nvml", "nccl", "cublas", "cudnn", "hip error", "xid")
"""Words of a message that a library of the GPU or its driver raised."""


def errors_of(message: str) -> tuple[ErrorPattern, ...]:
    """The rows for an error of the user's code.

    Any program may raise "GPU is lost" or "not yet initialized": it condemns the machine only in a
    message of CUDA, NVML or NCCL.
    """
    of_library = any(word in message.casefold() for word in LIBRARIES)
    return tuple(each for each in ERRORS if of_library or each.owner is not Owner.MACHINE)


BUILD_ERRORS = (
    ErrorPattern(
        ("is not installed in this interpreter",),
        "Install it into the training environment, or select another one with --python.",
        Owner.ENVIRONMENT,
    ),
    ErrorPattern(
        ("hydra.main", "argparse did not accept"),
        f"Name a function that needs no command line, or pass the arguments after --.\n{CONTRACT}",
        Owner.JOB,
    ),
    ErrorPattern(
        ("sys.exit(",),
        "Put what runs the training under if __name__ == '__main__', so that the file can be "
        "imported; the lines that it printed are below.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("exit status",),
        "Let the factory return instead of ending the process: it called os._exit(), or a library "
        "did.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("the LightningModule gives no batch",),
        "Return the module with a loader: its own after module.setup('fit'), or that of its data "
        "module.\n"
        "data.setup('fit')\n"
        "return module, data.train_dataloader()",
        Owner.JOB,
    ),
    ErrorPattern(
        ("the factory's batch is ndarray",),
        "Convert the array, torch.from_numpy(batch), and return tensors as the batch.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("the factory's optimizer is",),
        "Give a schedule under its own key, {'model': ..., 'optimizer': optimizer, 'scheduler': "
        "schedule}. Return an instance: torch.optim.AdamW(model.parameters(), lr=1e-3), with "
        "parentheses.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("; return (module, batch)", "the factory returned", "the factory's batch is"),
        "Return the module with a batch, or with a batch and a loss.\n"
        "return model, batch, lambda model, batch: criterion(model(batch['x']), batch['y'])\n"
        f"{CONTRACT}",
        Owner.JOB,
    ),
    ErrorPattern(
        ("its collate_fn returned nothing",),
        "Return the batch at the end of the loader's collate_fn: without a return it is None.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("drop_last=True",),
        "Choose a batch_size of at most the number of samples, or omit drop_last=True, which "
        "leaves out a batch that is not full.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("has no batch",),
        "Check the path and the filter of the data: the loader gives no batch, or the iterator was "
        "used before.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("nothing would train; without effect: ",),
        own_parameters.INEFFECTIVE_FIX,
        Owner.JOB,
    ),
    ErrorPattern(
        ("no parameter of the model requires a gradient",),
        "Call requires_grad_(True) on what is to train, after everything else was frozen: a loop "
        "over model.parameters() that runs after the head was replaced freezes the head too.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("--seq-len",),
        "Pass a smaller --seq-len.",
        Owner.JOB,
    ),
)
