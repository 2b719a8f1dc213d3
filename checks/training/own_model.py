"""The user's own training: its steps run, stay finite and update every parameter.

The judgement of the steps and most conditions are those of the small model in `smoke`.
"""

from __future__ import annotations

import math
import os.path
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import pairwise

import msgspec

from doctor._util.records import Ended, Unknown
from doctor._util.units import gib
from doctor.checks.training import smoke as judged
from doctor.checks.training.code_errors import find_fix
from doctor.checks.training.diagnosis import add_diagnosis
from doctor.facts.error_texts import INDEX
from doctor.facts.training import NO_LOSS, OwnModel, Parameter, Smoke, without_gradient
from doctor.job.job import Job
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, unknown, warn
from doctor.judge.error_patterns import ErrorPattern, match_error

SmallModel = Smoke | Unknown | None

HUNG = (
    "Look at the line where it waited: a lock, a download, input(), a DataLoader worker, or a "
    "collective without its other ranks. num_workers=0 excludes the workers."
)
CRASHED = (
    "Look at the line where it crashed: a library called there was not built for this environment, "
    "or was passed invalid memory. The doctor's small model trains here, so torch itself works."
)
MORE_TIME = "it computes and does not wait; a first torch.compile takes minutes on a busy machine"
GROWTH = 256 * 1024
"""Bytes per step; a training that keeps the graph of each step holds far more."""

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
        "return model, batch, lambda model, batch: criterion(model(batch['x']), batch['y'])",
        Owner.JOB,
    ),
    ErrorPattern(
        ("out of memory",),
        "Reduce the memory of the step: a smaller batch, gradient checkpointing, LoRA, or a larger "
        "GPU; see MEM001.",
        Owner.JOB,
    ),
    ErrorPattern(
        (*INDEX, "device-side assert"),
        "Fix the index in the batch that exceeds its table: a token beyond the rows of the "
        "embedding (call resize_token_embeddings after adding tokens), a label outside the "
        "classes, or a position beyond the model's length. CUDA_LAUNCH_BLOCKING=1 names the call.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("_amp_foreach_non_finite_check", "Attempting to unscale FP16 gradients"),
        "Load the weights with dtype=torch.float32, or train in bf16 without a GradScaler: a "
        "GradScaler does not work with half-precision weights, see NUM005.",
        Owner.JOB,
        ("titan-why", "pytorch-127176"),
    ),
    *judged.ERRORS,
)


def completes(own: OwnModel, smoke: SmallModel) -> Verdict:
    if own.unsupported:
        return unknown(f"{own.description}: {own.built.detail}", seconds=own.built.seconds)
    if not own.built.ok:
        return _about(own, smoke, _build_failure(own))
    if own.smoke is None:
        return unknown(f"{own.description}: no step of it was recorded")
    verdict = judged.completes(own.smoke, ERRORS, (HUNG, Owner.JOB))
    last = own.smoke.stages[-1].ended
    if verdict.status is Status.PASS and (growth := memory_growth(own)):
        return warn(
            f"{own.description}: {verdict.summary}; memory grows by {gib(growth)} per step; "
            "required: it stays the same",
            fix=GROWTH_FIX,
        )
    if not last.ok:
        verdict = _failed_step(own, smoke, verdict, last)
    return _about(own, smoke, verdict)


GROWTH_FIX = (
    "Keep no tensor of a step that has a graph: write total += loss.item() instead of total += "
    "loss, and detach() what is stored in a list or as the state of the next step."
)


def memory_growth(own: OwnModel) -> int:
    """Bytes by which memory grows in each of the last steps; 0 if it does not, or is unknown."""
    used = own.trend.resident if own.trend else ()
    steps = len(used) - 1
    if steps < 7 or any(after < before for before, after in pairwise(used)):
        return 0
    grown = sum(after > before for before, after in pairwise(used))
    each = (used[-1] - used[0]) // steps
    return each if each >= GROWTH and grown >= steps - 1 else 0


def _failed_step(own: OwnModel, smoke: SmallModel, verdict: Verdict, last: Ended) -> Verdict:
    """The failure of a step with what its error, its signal or its stack says."""
    if last.how == "timeout" and own.busy:
        return unknown(f"{verdict.summary.partition('; ')[0]}; {MORE_TIME}{_where(own)}")
    if last.how == "error" and (pattern := find_fix(last.detail)):
        return replace(
            verdict, fix=pattern.fix, owner=pattern.owner, sources=pattern.sources
        )
    if last.how == "timeout" and not (_trains(smoke) or own.stack):
        verdict = replace(verdict, fix=judged.HUNG, owner=None)
    if last.how == "signal" and "SIGKILL" not in last.detail and (_trains(smoke) or own.stack):
        fix = CRASHED if _trains(smoke) else CRASHED.rpartition(". The ")[0] + "."
        verdict = replace(verdict, fix=fix, owner=Owner.JOB)
    return replace(verdict, summary=f"{verdict.summary}{_where(own)}")


def _where(own: OwnModel) -> str:
    """The innermost line of the user's files, as a clause."""
    return f"; in {own.stack[0]}" if own.stack else ""


def _build_failure(own: OwnModel) -> Verdict:
    how = {"signal": "crashed", "timeout": "hung"}.get(own.built.how, "could not be built")
    summary = f"{how}: {own.built.detail or 'no message'}{_where(own)}"
    seconds = own.built.seconds
    if own.built.how == "timeout" and own.busy:
        return unknown(f"{own.built.detail}; {MORE_TIME}{_where(own)}", seconds=seconds)
    if own.built.how == "timeout":
        return fail(summary, fix=HUNG, owner=Owner.JOB, seconds=seconds)
    pattern = match_error(own.built.detail, BUILD_ERRORS) or find_fix(own.built.detail)
    if pattern := pattern or match_error(own.built.detail, ERRORS):
        return fail(summary, fix=pattern.fix, owner=pattern.owner, seconds=seconds)
    return fail(summary, seconds=seconds)


BUILD_ERRORS = (
    ErrorPattern(
        ("is not installed in this interpreter",),
        "Install it into the training environment, or select another one with --python.",
        Owner.ENVIRONMENT,
    ),
    ErrorPattern(
        ("hydra.main", "argparse did not accept"),
        "Name a function that needs no command line, or pass the arguments after --.",
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
        ("; return (module, batch)", "the factory returned", "the factory's batch"),
        "Return the module with a batch, or with a batch and a loss:\n"
        "return model, batch, lambda model, batch: criterion(model(batch['x']), batch['y'])",
        Owner.JOB,
    ),
    ErrorPattern(
        ("--seq-len",),
        "Pass a smaller --seq-len.",
        Owner.JOB,
    ),
)


def _about(own: OwnModel, smoke: SmallModel, verdict: Verdict) -> Verdict:
    """The verdict with the training's description; a failure with diagnosis and traceback."""
    verdict = replace(verdict, summary=f"{own.description}: {verdict.summary}")
    if verdict.status is not Status.FAIL:
        return verdict
    if own.smoke:
        verdict = add_diagnosis(verdict, own.smoke, own=True)
    if _trains(smoke) and verdict.owner is not Owner.MACHINE:
        sound = "the doctor's small model trains here, so the environment is sound"
        verdict = replace(verdict, summary=f"{verdict.summary}; {sound}")
    parts = {
        "Traceback, the code's own lines first:": own.traceback.splitlines(),
        "It was in, innermost line first:": own.stack,
        "It printed at the end:": own.printed,
    }
    lines = [line for head, part in parts.items() if part for line in (head, *part)]
    if lines:
        verdict = replace(verdict, fix="\n".join([verdict.fix or STEP_COMPLETES.fix, *lines]))
    return verdict


def _trains(smoke: SmallModel) -> bool:
    """Whether the doctor's small model passes its checks."""
    judges = (judged.completes, judged.loss_finite, judged.gradients_reach_all)
    return isinstance(smoke, Smoke) and all(j(smoke).status is Status.PASS for j in judges)


STEP_COMPLETES = Check(
    code="SMK005",
    slug="own-step-completes",
    title="A step of your own training completes",
    why="The doctor's small model shows that the environment is sound; your model, batch and loss "
    "can still fail. The factory of --model, or the model directory of --hf, is built in the "
    "training interpreter, in a process with a deadline, and trained for a few steps. An error, a "
    "crash or a hang is reported with its stage.",
    passes=(
        "the model is built",
        "allocate, forward, loss, backward and optimizer complete in every step",
    ),
    fails=(
        "the factory or the directory does not provide a model",
        "a stage raises, crashes or hangs",
    ),
    warns=("memory grows in each of ten steps, by at least 256 KiB",),
    fix="Fix the error that was raised. To reproduce it without the doctor, import the file, call "
    "the factory, and run forward and backward once.",
    limits="that a whole run completes: only a few steps of one batch were run.",
    owner=Owner.JOB,
    judge=completes,
    returns=True,
    required="smoke",
    sources=("cbl-verification",),
    after=("TOR001",),
)


def loss_finite(own: OwnModel, smoke: SmallModel) -> Verdict:
    if own.smoke is None:
        return unknown("no step was recorded")
    verdict = judged.loss_finite(own.smoke)
    if verdict.status is Status.PASS:
        verdict = _over_the_steps(own, own.smoke, verdict)
    return _about(own, smoke, verdict)


LARGE_NORM = 1e3
"""Our own number: gradients of common models have norms below 100 after initialization."""
DIVERGED = 100.0
"""Times the first loss."""


def _over_the_steps(own: OwnModel, steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on finite steps: a warning if they diverge, notes on what they show otherwise."""
    losses = [float(loss) for loss in own.trend.losses] if own.trend else []
    norms = [float(step.grad_norm) for step in steps.steps if not step.skipped]
    bad = next((n for n, loss in enumerate(losses, 1) if not math.isfinite(loss)), None)
    if bad:
        return warn(
            f"{verdict.summary}; the loss is {losses[bad - 1]} in step {bad} on the same batch; "
            "required: it stays finite",
            fix=DIVERGES_FIX,
        )
    if losses and abs(losses[-1]) > DIVERGED * max(1.0, abs(losses[0])):
        return warn(
            f"{verdict.summary}; the loss grows from {losses[0]:.4g} to {losses[-1]:.4g} in "
            f"{len(losses)} steps on the same batch; required: it does not grow "
            f"{DIVERGED:g}-fold",
            fix=DIVERGES_FIX,
        )
    if norms and min(norms) > LARGE_NORM:
        return warn(
            f"{verdict.summary}; the gradient norm is {max(norms):.3g}; at most {LARGE_NORM:g} "
            "expected",
            fix=LARGE_NORM_FIX,
        )
    return replace(verdict, summary="; ".join([verdict.summary, *_notes(own, losses)]))


DIVERGES_FIX = (
    "Lower the learning rate, warm it up from 0 over the first steps, and clip the gradients.\n"
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
)
LARGE_NORM_FIX = (
    "Normalize inputs and targets to a scale near 1, take the mean of the loss instead of the "
    "sum, and check the initialization. Clipping to 1.0 would scale such a gradient down a "
    "thousandfold."
)


def _notes(own: OwnModel, losses: list[float]) -> list[str]:
    """Remarks on the losses that are no fault by themselves."""
    notes = []
    classes = own.trend.classes if own.trend else None
    if classes and classes > 1 and losses and losses[0] > 2 * math.log(classes) + 1:
        notes.append(
            f"note: the first loss is {losses[0]:.4g}, uniform predictions of {classes} classes "
            f"give {math.log(classes):.4g}"
        )
    window = 5
    if len(losses) >= 4 * window:
        first, last = (sum(part) / window for part in (losses[:window], losses[-window:]))
        if last >= first:
            notes.append(
                f"note: the loss did not fall in {len(losses)} steps on this batch "
                f"({losses[0]:.4g} to {losses[-1]:.4g})"
            )
    if any(float(step.loss) == 0.0 for step in (own.smoke.steps if own.smoke else ())):
        notes.append("note: the loss is 0 while gradients are not, as in the first step of GRPO")
    return notes


LOSS_FINITE = replace(
    judged.LOSS_FINITE,
    code="SMK006",
    slug="own-loss-finite",
    title="Loss and gradients of your own training are finite",
    why="A NaN in the first steps comes from the data (a label outside the classes, a NaN in the "
    "input, a batch with masked labels only), from corrupt weights, from a half-precision "
    "overflow, or from a kernel. Exact zeros in loss and gradients train nothing. Afterwards the "
    "steps go on, to 20 on the same batch, and a loss that diverges is a warning.",
    warns=(
        "the loss stops being finite, or grows 100-fold, within 20 steps on the same batch",
        "the norm of the gradients is above 1000 in every step",
    ),
    fix="Inspect the batch first (labels, NaN, padding), then the weights, and repeat the run in "
    "fp32.\n"
    "doctor run --precision fp32\n"
    "If that is finite, the precision is the cause, else the data or the model.",
    owner=Owner.JOB,
    judge=loss_finite,
    sources=("bts-quick", "cbl-verification", "ps-P8", "ps-P9", "ps-P10"),
    after=("SMK005",),
)


def gradients_reach_all(own: OwnModel, smoke: SmallModel, job: Job) -> Verdict:
    if (steps := _with_finite_gradients(own)) is None:
        return unknown("no parameter was recorded, or gradients are not finite: see SMK006")
    required, expected = _partition(steps.parameters, job)
    if not required:
        return ok(f"{own.description}: all {len(expected)} parameters match --expect-no-grad")
    note = f"; {len(expected)} omitted by --expect-no-grad" if expected else ""
    if job.hf and not job.lora:
        required, unused_parts = _used(required)
        note += f"; the loss of this class does not use {unused_parts}" if unused_parts else ""
    if unused := [glob for glob in job.expect_no_grad if not _matches(glob, expected)]:
        note += f"; no parameter matches --expect-no-grad {', '.join(unused)}"
    verdict = judged.gradients_reach_all(_only(required, steps))
    if verdict.status is not Status.FAIL:
        return _about(own, smoke, replace(verdict, summary=f"{verdict.summary}{note}"))
    without = without_gradient(required)
    fix = SILENT_FIX if _adapters_frozen(required) else _no_gradient_fix(without)
    kinds = _kinds(without)
    summary = verdict.summary.replace("had no non-zero gradient", kinds, 1)
    uncalled = _uncalled(steps, without)
    called = f"; never called: {', '.join(uncalled)}" if uncalled else ""
    verdict = replace(verdict, summary=f"{summary}{called}{note}", fix=fix)
    return _about(own, smoke, verdict)


def _used(required: Sequence[Parameter]) -> tuple[list[Parameter], str]:
    """The parameters in the graph of the loss, and the others in words: those of a class of
    transformers are not used by design, such as the last layers of LLaVA's image encoder."""
    used = [each for each in required if each.computed is not False]
    unused = [each.name for each in required if each.computed is False]
    if not used or not unused:
        return list(required), ""
    common = os.path.commonprefix(unused).rpartition(".")[0]
    return used, f"{len(unused)} parameters ({common}.*)" if common else f"{len(unused)} parameters"


def _kinds(without: Sequence[Parameter]) -> str:
    """ "got no gradient", "got only zeros", or how many got which."""
    absent = sum(each.computed is False for each in without)
    if any(each.computed is None for each in without):
        return "had no non-zero gradient"
    if absent == len(without):
        return "got no gradient"
    return f"got no gradient ({absent}) or only zeros ({len(without) - absent})" if absent else (
        "got a gradient of zeros only"
    )


def _uncalled(steps: Smoke, without: Sequence[Parameter]) -> list[str]:
    """Modules that the forward pass does not call and that hold one of these parameters."""
    uncalled = steps.diagnosis.uncalled if steps.diagnosis else ()
    return [name for name in uncalled if any(p.name.startswith(f"{name}.") for p in without)]


def _no_gradient_fix(without: Sequence[Parameter]) -> str:
    """The remedy, with the flag that exempts exactly these parameters."""
    heads = dict.fromkeys(each.name.partition(".")[0] for each in without)
    globs = " ".join(f"--expect-no-grad '{name}*'" for name in list(heads)[:3])
    return (
        "Look for detach, .data, .item(), no_grad and unused modules between these parameters and "
        "the loss. Gradients of zeros come from a multiplication by 0, a saturated activation, or "
        "underflow in half precision (compare --precision fp32). If they are frozen or unused on "
        "purpose, call requires_grad_(False) on them, or exempt them:\n"
        f"doctor run ... {globs}"
    )


def _with_finite_gradients(own: OwnModel) -> Smoke | None:
    """The steps, if parameters were recorded and all gradients are finite."""
    if own.smoke is None or not own.smoke.parameters:
        return None
    return own.smoke if all(each.finite for each in own.smoke.parameters) else None


def _only(parameters: Sequence[Parameter], smoke: Smoke) -> Smoke:
    return msgspec.structs.replace(smoke, parameters=tuple(parameters))


def _partition(
    parameters: Sequence[Parameter], job: Job
) -> tuple[list[Parameter], list[Parameter]]:
    """Parameters that need a gradient, and those that --expect-no-grad matches."""
    matched = [p for p in parameters if any(_matches(g, (p,)) for g in job.expect_no_grad)]
    return [p for p in parameters if p not in matched], matched


def _matches(glob: str, parameters: Sequence[Parameter]) -> bool:
    return any(fnmatchcase(each.name, glob) for each in parameters)


def _adapters_frozen(parameters: Sequence[Parameter]) -> bool:
    """Whether no adapter gets a gradient while another module does."""
    adapters = [p for p in parameters if "lora_" in p.name]
    others = [p for p in parameters if "lora_" not in p.name]
    without = adapters and not any(p.had_gradient for p in adapters)
    return bool(without and any(p.had_gradient for p in others))


SILENT_FIX = (
    "Pass gradient_checkpointing_kwargs={'use_reentrant': False}, or call "
    "model.enable_input_require_grads(): reentrant checkpointing cuts the graph, so only "
    "modules_to_save learn and the adapters do not, without an error."
)

GRADIENTS_REACH_ALL = replace(
    judged.GRADIENTS_REACH_ALL,
    code="SMK007",
    slug="own-gradients-reach-all",
    title="Gradients reach every trainable parameter of your model",
    why="A parameter without a gradient does not learn, and no error is raised. Causes are detach, "
    "no_grad or .item() in the forward pass, a module that is never called, a kernel without a "
    "gradient for its weight, and reentrant checkpointing: with modules_to_save in LoRA the head "
    "then learns and the adapters silently do not.",
    passes=(
        *judged.GRADIENTS_REACH_ALL.passes,
        "parameters that match --expect-no-grad are exempt",
    ),
    fix="Look for detach, no_grad and unused modules between these parameters and the loss. For "
    "parameters that are frozen on purpose, call requires_grad_(False), or exempt them with "
    "--expect-no-grad.",
    owner=Owner.JOB,
    judge=gradients_reach_all,
    sources=("fnr-gradients", "cbl-verification", "ps-P18", "unsloth-4533"),
    after=("SMK006",),
)


def weights_move(own: OwnModel, job: Job) -> Verdict:
    if (steps := _with_finite_gradients(own)) is None:
        return unknown("no parameter was recorded, or gradients are not finite: see SMK006")
    required, _ = _partition(steps.parameters, job)
    if not required:
        return ok(f"{own.description}: all parameters match --expect-no-grad")
    reached = [each for each in required if each.had_gradient]
    if not reached:
        return unknown("no parameter got a gradient that is not 0: see SMK007")
    verdict = judged.weights_move(_only(reached, steps))
    if verdict.status is Status.FAIL:
        unchanged = [each for each in reached if not each.moved]
        verdict = _unchanged(steps, unchanged, verdict)
    missing = len(required) - len(reached)
    note = f"; {missing} got no gradient: see SMK007" if missing else ""
    return replace(verdict, summary=f"{own.description}: {verdict.summary}{note}")


def _unchanged(steps: Smoke, unchanged: Sequence[Parameter], verdict: Verdict) -> Verdict:
    """The verdict on parameters that got a gradient and did not change."""
    optimizer = steps.optimizer
    verdict = replace(verdict, owner=None)
    if optimizer is None:
        rounded = any(each.dtype in HALVES for each in unchanged)
        return replace(verdict, fix=None if rounded else UNEXPLAINED_FIX)
    summary, *_ = verdict.summary.partition("; required")
    summary = summary.replace(f"at lr {steps.lr:g}", f"of your {optimizer.name}")
    required = "; required: all change"
    if all(step.lr == 0.0 for step in steps.steps):
        schedule = f" with {optimizer.schedule}" if optimizer.schedule else ""
        return fail(f"{summary}; the learning rate is 0 in every step{schedule}{required}",
                    fix=RATE_FIX)  # fmt: skip
    if optimizer.max_norm == 0.0:
        return fail(f"{summary}; gradients are clipped to a norm of 0{required}", fix=CLIP_FIX)
    if omitted := [each.name for each in unchanged if each.name in optimizer.omitted]:
        names = ", ".join(omitted[:4]) + (f" and {len(omitted) - 4} more" if omitted[4:] else "")
        return fail(f"{summary}; in no group of the optimizer: {names}{required}", fix=OMITTED_FIX)
    if any(each.dtype in HALVES for each in unchanged):
        return replace(verdict, summary=f"{summary}{required}; {judged.ROUNDING}", fix=None)
    rate = max(step.lr for step in steps.steps)
    return ok(f"{summary}: updates at a learning rate of {rate:g} are below what float32 resolves")


HALVES = ("bfloat16", "float16")
UNEXPLAINED_FIX = (
    "Look at what the loss function does to these parameters after the update: the optimizer had a "
    "gradient for them."
)
RATE_FIX = (
    "Let the schedule start above 0, step it after every batch and not after every epoch, and "
    "check the number of its warm-up and total steps."
)
CLIP_FIX = "Clip to a positive norm such as 1.0: a limit of 0 multiplies every gradient by 0."
OMITTED_FIX = (
    "Put every trainable parameter into a group of the optimizer; norms and biases belong into the "
    "group without weight decay, not outside of all groups. Call requires_grad_(False) on what "
    "must not train."
)

WEIGHTS_MOVE = replace(
    judged.WEIGHTS_MOVE,
    code="SMK008",
    slug="own-weights-move",
    title="Every trainable parameter of your model changes, norms included",
    why="At 1.0, bf16 rounds updates of up to 2^-8 (0.0039) upwards and 2^-9 (0.00195) downwards "
    "away, and AdamW changes a weight by about the learning rate. So norm weights of a model "
    "loaded in bf16 stay at 1.0 for the whole run, while the loss falls. Since version 5, "
    "transformers loads in the directory's dtype by default, usually bf16.",
    passes=(*judged.WEIGHTS_MOVE.passes, "parameters that match --expect-no-grad are exempt"),
    fix="Load the weights with dtype=torch.float32 and compute in bf16 under autocast (bf16=True), "
    "or use an optimizer that compensates for rounding: Kahan summation or stochastic rounding. A "
    "larger learning rate only hides the problem.",
    judge=weights_move,
    after=("SMK006",),
)

CHECKS = (STEP_COMPLETES, LOSS_FINITE, GRADIENTS_REACH_ALL, WEIGHTS_MOVE)
