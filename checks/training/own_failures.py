"""Why a step of the user's own training did not complete, and what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath

from doctor._util.records import Ended
from doctor.checks.training import kernel_errors, smoke_errors
from doctor.checks.training.errors.explain import describe, explain
from doctor.checks.training.errors.fixes import find_fix
from doctor.facts.code_errors import code_error
from doctor.facts.error_texts import INDEX
from doctor.facts.own_model import OwnModel
from doctor.facts.training import NO_LOSS
from doctor.judge.check import Owner, Verdict, fail, unknown
from doctor.judge.error_patterns import ErrorPattern, match_error

HUNG = (
    "Look at the line where it waited: a lock, a download, input(), a DataLoader worker, or a "
    "collective without its other ranks. num_workers=0 excludes the workers."
)
HUNG_WORKER = (
    "Look at what __getitem__ and collate_fn wait for: the loader waits for a worker that does not "
    "answer. With num_workers=0 the stack shows the line. Locks, threads and open connections that "
    "were made before the workers start do not work in them; neither does CUDA."
)
CRASHED = (
    "Look at the line where it crashed: a library called there was not built for this environment, "
    "or was passed invalid memory. The doctor's small model trains here, so torch itself works."
)
MORE_TIME = "it computes and does not wait; a first torch.compile takes minutes on a busy machine"
CONTRACT = "doctor explain model"
"""The command that lists what a factory may return."""
INDEX_ERROR = ErrorPattern(
    (*INDEX, "device-side assert", "Class values must be"),
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


def known_errors(message: str) -> tuple[ErrorPattern, ...]:
    """The rows for an error of the user's code.

    Any program may raise "GPU is lost" or "not yet initialized": it condemns the machine only in a
    message of CUDA, NVML or NCCL.
    """
    of_library = any(word in message.casefold() for word in LIBRARIES)
    return tuple(each for each in ERRORS if of_library or each.owner is not Owner.MACHINE)


def failed_step(own: OwnModel, verdict: Verdict, last: Ended, *, sound: bool) -> Verdict:
    """The failure of a step with what its error, its signal or its stack says.

    `sound`: the doctor's small model trains here.
    """
    if last.how == "timeout" and own.busy:
        return unknown(f"{verdict.summary.partition('; ')[0]}; {MORE_TIME}{_where(own)}")
    if last.how == "error":
        return _raised_step(own, verdict, last.detail)
    verdict = replace(verdict, summary=f"{verdict.summary}{_where(own)}")
    if last.how == "timeout" and not (sound or own.stack):
        verdict = replace(verdict, fix=smoke_errors.HUNG, owner=None)
    if last.how == "signal" and "SIGKILL" not in last.detail and (sound or own.stack):
        fix = CRASHED if sound else CRASHED.rpartition(". The ")[0] + "."
        verdict = replace(verdict, fix=fix, owner=Owner.JOB)
    return verdict


def _raised_step(own: OwnModel, verdict: Verdict, detail: str) -> Verdict:
    """The failure of a step that raised, with the call, the cause and the remedy."""
    summary = verdict.summary.partition("; completed before: ")[0]
    if kernel_errors.raised_later(detail):
        return _of_kernel(own, replace(verdict, summary=f"{summary}{_where(own)}"))
    verdict = replace(verdict, summary=f"{summary}{_where(own)}{describe(own)}")
    if own.computed_once and code_error(detail) == "several losses in the graph":
        names = ", ".join(own.computed_once)
        clause = f"{names} has a graph, and was computed before the first step"
        fix = f"Compute {names} in forward: backward() frees its graph, which is made only once."
        return replace(verdict, summary=f"{verdict.summary}; {clause}", fix=fix, owner=Owner.JOB)
    if explanation := explain(own):
        return replace(
            verdict,
            summary="; ".join(filter(None, (verdict.summary, explanation.cause))),
            fix=explanation.fix,
            owner=explanation.owner,
        )
    if pattern := _known_fix(own, detail):
        return replace(verdict, fix=pattern.fix, owner=pattern.owner, sources=pattern.sources)
    return verdict if verdict.fix else replace(verdict, fix=_look(own, detail))


def _hung(own: OwnModel) -> str:
    """The remedy of a hang, by the stack."""
    waits = any(each.startswith("dataloader.py") for each in own.stack)
    return HUNG_WORKER if waits else HUNG


def _of_kernel(own: OwnModel, verdict: Verdict) -> Verdict:
    """The failure of a kernel with what it printed, and the error of the same step on the CPU."""
    verdict = replace(verdict, summary=f"{verdict.summary}{kernel_errors.observed(own)}")
    on_cpu = kernel_errors.error_on_cpu(own)
    by_message = match_error(on_cpu, ERRORS) if on_cpu else None
    specific = by_message if by_message is not INDEX_ERROR else None
    pattern = specific or kernel_errors.by_assertion(own) or by_message
    return replace(verdict, fix=pattern.fix, owner=pattern.owner) if pattern else verdict


def _where(own: OwnModel) -> str:
    """The innermost line of the user's files, as a clause."""
    if own.stack:
        return f"; in {own.stack[0]}"
    if own.raised is not None and own.raised.place:
        code = f" (`{own.raised.code}`)" if own.raised.code else ""
        return f"; in {own.raised.place}{code}"
    frames = [each for each in FRAME.finditer(own.traceback) if not LIBRARY.search(each["file"])]
    last = frames[-1] if frames else None
    return f"; in {PurePath(last['file']).name}, line {last['line']}" if last else ""


FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)', re.MULTILINE)
LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^<")


def build_failure(own: OwnModel) -> Verdict:
    how = {"signal": "crashed", "timeout": "hung"}.get(own.built.how, "could not be built")
    summary = f"{how}: {own.built.detail or 'no message'}{_where(own)}{describe(own)}"
    seconds = own.built.seconds
    if own.built.how == "timeout" and own.busy:
        return unknown(f"{own.built.detail}; {MORE_TIME}{_where(own)}", seconds=seconds)
    if own.built.how == "timeout":
        return fail(summary, fix=_hung(own), owner=Owner.JOB, seconds=seconds)
    if own.built.how == "error" and (explanation := explain(own)):
        summary = "; ".join(filter(None, (summary, explanation.cause)))
        return fail(summary, fix=explanation.fix, owner=explanation.owner, seconds=seconds)
    pattern = match_error(own.built.detail, BUILD_ERRORS) or _known_fix(own, own.built.detail)
    if pattern := pattern or match_error(own.built.detail, known_errors(own.built.detail)):
        return fail(summary, fix=pattern.fix, owner=pattern.owner, seconds=seconds)
    fix = _look(own, own.built.detail) if own.built.how == "error" else None
    return fail(summary, fix=fix, seconds=seconds)


def _known_fix(own: OwnModel, detail: str) -> ErrorPattern | None:
    """By the last line of the error, else by its whole message."""
    return find_fix(detail) or (find_fix(own.raised.message) if own.raised else None)


def _look(own: OwnModel, detail: str) -> str:
    """The fix of an error that is not known: the place, or the message again."""
    if own.raised is None or not own.raised.place:
        return f"Fix the error that was raised: {_message(detail)}"
    arguments = ", with the arguments that the summary lists" if describe(own) else ""
    return f"Fix the error in {own.raised.place}{arguments}: {_message(detail)}"


def _message(detail: str) -> str:
    """The error without the stage that raised it, as a sentence."""
    stage, colon, rest = detail.partition(": ")
    text = rest if colon and " " not in stage and stage.islower() else detail
    return f"{text.rstrip('.: ')}."


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
        "Return an instance: torch.optim.AdamW(model.parameters(), lr=1e-3), with parentheses.",
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


def evidence(own: OwnModel) -> list[str]:
    """The traceback, the stack and the last printed lines, for the end of a fix."""
    parts = {
        "Traceback, the code's own lines first:": own.traceback.splitlines(),
        "It was in, innermost line first:": own.stack,
        "It printed at the end:": own.printed,
    }
    return [line for head, part in parts.items() if part for line in (head, *part)]
