"""The training that the user named: whether its steps run, stay finite and move its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import msgspec

from doctor._util.records import Unknown
from doctor.checks.training import smoke as judged
from doctor.checks.training.diagnosis import complete
from doctor.facts.training import NO_LOSS, OwnModel, Parameter, Smoke
from doctor.job.job import Job
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, unknown
from doctor.judge.error_patterns import ErrorPattern, match_error

SmallModel = Smoke | Unknown | None

HUNG = (
    "Run it alone and call faulthandler.dump_traceback_later(60) at its start: that names the line "
    "that waits, such as a lock, a download, a DataLoader's worker or a collective without its "
    "other ranks."
)

NOT_THERE = "is not installed in this interpreter"

ERRORS = (
    ErrorPattern(
        (NOT_THERE,),
        "Install it into the training environment, or name another one with --python.",
        Owner.ENVIRONMENT,
    ),
    ErrorPattern(
        NO_LOSS,
        "Let the forward pass give a loss (.loss, a key 'loss' or a scalar tensor), or return "
        "(module, batch, loss) from the factory, where loss(module, batch) is a scalar tensor; "
        "docs/own-model.md has an example.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("out of memory",),
        "The step does not fit into the memory that is free: a smaller batch, gradient "
        "checkpointing, LoRA, or a larger GPU; see MEM001.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("index out of range", "out of bounds", "device-side assert", "Assertion `t >= 0"),
        "A number in the batch is outside its table: a token beyond the rows of the embedding "
        "(resize_token_embeddings after adding tokens), a label outside the classes, or a position "
        "beyond the model's length. CUDA_LAUNCH_BLOCKING=1 names the call.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("_amp_foreach_non_finite_check", "Attempting to unscale FP16 gradients"),
        "A GradScaler met half-precision weights, see NUM005: load them with dtype=torch.float32, "
        "or train in bf16 without a GradScaler.",
        Owner.JOB,
        ("titan-why", "pytorch-127176"),
    ),
    *judged.ERRORS,
)


def completes(own: OwnModel, smoke: SmallModel) -> Verdict:
    if own.beyond:
        return unknown(f"{own.said}: {own.built.detail}", seconds=own.built.seconds)
    if not own.built.ok:
        return _told(own, smoke, _not_built(own))
    if own.smoke is None:
        return unknown(f"{own.said}: no step of it was recorded")
    plain = msgspec.structs.replace(own.smoke, diagnosis=None)
    verdict = judged.completes(plain)
    last = next((stage.ended.detail for stage in plain.stages if not stage.ended.ok), "")
    if verdict.status is Status.FAIL and (known := match_error(last, ERRORS)):
        verdict = replace(verdict, fix=known.fix, owner=known.owner, sources=known.sources)
    if verdict.fix == judged.HUNG and _well(smoke):
        verdict = replace(verdict, fix=HUNG, owner=Owner.JOB)
    return _told(own, smoke, verdict)


def _not_built(own: OwnModel) -> Verdict:
    how = {"signal": "crashed", "timeout": "hung"}.get(own.built.how, "could not be built")
    said = f"{how}: {own.built.detail or 'no message'}"
    if known := match_error(own.built.detail, ERRORS):
        return fail(said, fix=known.fix, owner=known.owner, seconds=own.built.seconds)
    return fail(said, seconds=own.built.seconds)


def _told(own: OwnModel, smoke: SmallModel, verdict: Verdict) -> Verdict:
    """The verdict about the user's training, with what the search for its cause found."""
    verdict = replace(verdict, summary=f"{own.said}: {verdict.summary}")
    if verdict.status is not Status.FAIL:
        return verdict
    if own.smoke:
        verdict = complete(verdict, own.smoke, own=True)
    if _well(smoke) and verdict.owner is not Owner.MACHINE:
        said = "the doctor's small model trains here, so the environment is well"
        verdict = replace(verdict, summary=f"{verdict.summary}; {said}")
    if own.traceback:
        fix = verdict.fix or STEP_COMPLETES.fix
        verdict = replace(verdict, fix=f"{fix}\nThe last lines of its traceback:\n{own.traceback}")
    return verdict


def _well(smoke: SmallModel) -> bool:
    """Whether the doctor's own model trained without a complaint."""
    judges = (judged.completes, judged.loss_finite, judged.gradients_reach_all)
    return isinstance(smoke, Smoke) and all(j(smoke).status is Status.PASS for j in judges)


STEP_COMPLETES = Check(
    code="SMK005",
    slug="own-step-completes",
    title="A step of your own training completes",
    why="That the doctor's small model trains says that the environment is well; your model, your "
    "batch and your loss are another matter. The factory of --model, or the model folder of --hf, "
    "is built in the training interpreter, in a process of its own with a deadline, and trained "
    "for a few steps; an error, a crash or a hang is told with the stage it came from.",
    passes=(
        "the model is built, and allocate, forward, loss, backward and optimizer are "
        "done in every step",
    ),
    fails=(
        "the factory or the folder gives no model, or a stage raised, crashed or gave "
        "no answer in time",
    ),
    fix="Mend what was raised; the contract of a factory is in docs/own-model.md. The same call "
    "outside the doctor: import the file, call the factory, and run forward and backward once.",
    limits="that a whole run completes: these are a few steps of one batch.",
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
    return _told(own, smoke, judged.loss_finite(msgspec.structs.replace(own.smoke, diagnosis=None)))


LOSS_FINITE = Check(
    code="SMK006",
    slug="own-loss-finite",
    title="Loss and gradients of your own training are finite",
    why="A NaN in the first steps comes from the data (a label outside the classes, a NaN in the "
    "input, a batch whose labels are all masked), from weights that were broken when they were "
    "loaded, from a half-precision overflow, or from a kernel. A loss of exactly 0 is a NaN in "
    "disguise in many logs: the Trainer's logging_nan_inf_filter prints a NaN loss as 0.0.",
    passes=(
        "loss finite and not 0 in every step",
        "gradients finite in every step that was not skipped",
        "up to 10 steps skipped by an fp16 GradScaler",
    ),
    fails=(
        "a loss is nan, inf or exactly 0, a gradient is not finite in a step that was "
        "taken, or the GradScaler skipped every step",
    ),
    fix="Look at the batch first (labels, NaN, padding), then at the weights; run again with "
    "--precision fp32: if that is finite, the precision is the cause, else the data or the model.",
    limits="that the loss falls, or stays finite beyond these few steps.",
    owner=Owner.JOB,
    judge=loss_finite,
    returns=True,
    required="smoke",
    sources=("bts-quick", "cbl-verification", "ps-P8", "ps-P9", "ps-P10"),
    after=("SMK005",),
)


def gradients_reach_all(own: OwnModel, smoke: SmallModel, job: Job) -> Verdict:
    if (readable := _readable(own)) is None:
        return unknown("no parameter was recorded, or gradients are not finite: see SMK006")
    wanted, expected = _expected(readable.parameters, job)
    if not wanted:
        return ok(f"{own.said}: all {len(expected)} parameters match --expect-no-grad")
    noted = f"; {len(expected)} left out by --expect-no-grad" if expected else ""
    if idle := [glob for glob in job.expect_no_grad if not _matches(glob, expected)]:
        noted += f"; no parameter matches --expect-no-grad {', '.join(idle)}"
    plain = msgspec.structs.replace(readable, parameters=tuple(wanted), diagnosis=None)
    verdict = judged.gradients_reach_all(plain)
    verdict = replace(verdict, summary=f"{verdict.summary}{noted}", fix=None, owner=None)
    if verdict.status is Status.FAIL and _silent(wanted):
        verdict = replace(verdict, fix=SILENT_FIX)
    return _told(own, smoke, verdict)


def _readable(own: OwnModel) -> Smoke | None:
    """The steps, where gradients can be told from them."""
    if own.smoke is None or not own.smoke.parameters:
        return None
    return own.smoke if all(each.finite for each in own.smoke.parameters) else None


def _expected(parameters: Sequence[Parameter], job: Job) -> tuple[list[Parameter], list[Parameter]]:
    """Parameters that must get a gradient, and those that --expect-no-grad names."""
    named = [p for p in parameters if any(_matches(g, (p,)) for g in job.expect_no_grad)]
    return [p for p in parameters if p not in named], named


def _matches(glob: str, parameters: Sequence[Parameter]) -> bool:
    return any(fnmatchcase(each.name, glob) for each in parameters)


def _silent(parameters: Sequence[Parameter]) -> bool:
    """Adapters get no gradient while a module that is trained whole does."""
    adapters = [p for p in parameters if "lora_" in p.name]
    others = [p for p in parameters if "lora_" not in p.name]
    dead = adapters and not any(p.had_gradient for p in adapters)
    return bool(dead and any(p.had_gradient for p in others))


SILENT_FIX = (
    "Only modules_to_save learn, the adapters do not, and nothing raises: reentrant checkpointing "
    "cuts the graph. Pass gradient_checkpointing_kwargs={'use_reentrant': False}, or call "
    "model.enable_input_require_grads()."
)

GRADIENTS_REACH_ALL = Check(
    code="SMK007",
    slug="own-gradients-reach-all",
    title="Gradients reach every trainable parameter of your model",
    why="A parameter without a gradient does not learn, and nothing complains: the loss falls all "
    "the same. Causes are detach, no_grad or .item() in the forward pass, a module that is never "
    "called, a kernel that returns no gradient for its weight, and reentrant checkpointing whose "
    "inputs need no gradient: with modules_to_save in LoRA the head then learns and the adapters "
    "silently do not. lora_A's gradient is 0 in the first step, because lora_B starts at 0, so a "
    "few steps are looked at.",
    passes=(
        "every trainable parameter had a non-zero gradient in some step that was not "
        "skipped, those that --expect-no-grad names left out",
    ),
    fails=("some parameter had none, or only zeros",),
    fix="Look for detach, no_grad and unused modules on the way from these parameters to the loss. "
    "What stands still on purpose: set requires_grad_(False), or name it with --expect-no-grad.",
    limits="that the gradients are right: they are only not zero.",
    owner=Owner.JOB,
    judge=gradients_reach_all,
    returns=True,
    required="smoke",
    sources=("fnr-gradients", "cbl-verification", "ps-P18", "unsloth-4533"),
    after=("SMK005",),
)


def weights_move(own: OwnModel, job: Job) -> Verdict:
    if (readable := _readable(own)) is None:
        return unknown("no parameter was recorded, or gradients are not finite: see SMK006")
    wanted, _ = _expected(readable.parameters, job)
    if not wanted:
        return ok(f"{own.said}: all parameters match --expect-no-grad")
    plain = msgspec.structs.replace(readable, parameters=tuple(wanted), diagnosis=None)
    verdict = judged.weights_move(plain)
    if verdict.status is Status.FAIL and all(p.moved or not p.had_gradient for p in wanted):
        said = f"{own.said}: {verdict.summary}"
        return replace(verdict, summary=said, fix=UNREACHED_FIX, owner=None)
    return replace(verdict, summary=f"{own.said}: {verdict.summary}", fix=None, owner=None)


UNREACHED_FIX = "No gradient reaches them: see SMK007."

WEIGHTS_MOVE = Check(
    code="SMK008",
    slug="own-weights-move",
    title="Every trainable parameter of your model changes, norms included",
    why="A bf16 weight keeps 8 significant bits, and AdamW moves a weight by about the learning "
    "rate: at 1.0 a step of up to 2^-8 (0.0039) upwards and 2^-9 (0.00195) downwards is rounded "
    "away, so norm weights of a model that was loaded in bf16 stay at 1.0 for the whole run while "
    "the loss falls. transformers loads in the folder's dtype, usually bf16, by default since "
    "version 5. Weight decay is 0 here, because decay would move a weight that learns nothing.",
    passes=(
        "every trainable parameter differs from its initial copy after the steps, "
        "those that --expect-no-grad names left out",
    ),
    fails=("some are unchanged bit for bit",),
    fix="Load the weights with dtype=torch.float32 and compute in bf16 under autocast (bf16=True), "
    "or let the optimizer carry what rounding loses: Kahan summation or stochastic rounding. A "
    "larger learning rate only hides it.",
    limits="that the weights move in the right direction, or enough.",
    owner=Owner.JOB,
    judge=weights_move,
    returns=True,
    required="smoke",
    sources=("fnr-precision", "fnr-root", "fnr-fix", "bts-fix2"),
    after=("SMK005",),
)

CHECKS = (STEP_COMPLETES, LOSS_FINITE, GRADIENTS_REACH_ALL, WEIGHTS_MOVE)
