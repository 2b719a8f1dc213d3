"""Whether a checkpoint's norms changed from their initial value."""

from __future__ import annotations

import dataclasses

from doctor._util.records import Unknown
from doctor._util.units import counted, shown
from doctor.checkpoint.records import Checkpoint, Norm, Optimizer, Values
from doctor.checks.checkpoint.norm_causes import (
    LEFT_OUT_FIX,
    MATCHED_BY,
    MIN_DISTANCE,
    MIN_STEPS,
    NO_GRADIENT_FIX,
    causes,
    distance_of_steps,
    length_of_run,
)
from doctor.checks.checkpoint.optimizer import unread_state
from doctor.checks.checkpoint.unchanged_norms import (
    GRADIENT_FIX,
    all_unchanged,
    legitimate,
    names_of,
    observed_norms,
    some_unchanged,
)
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn

COPY_FIX = (
    "Copy the buffers with the average: AveragedModel(use_buffers=True), or "
    "ema_buffer.copy_(buffer) for each of buffers() at every update. For this file, copy "
    "running_mean, running_var and num_batches_tracked of the trained model into the average, or "
    "recompute them with torch.optim.swa_utils.update_bn(loader, model). If update_bn runs before "
    "each use, nothing is wrong."
)
EVAL_FIX = (
    "Call model.train() before the steps, and again after each evaluation: batch norms in eval() "
    "neither use nor record the statistics of the batches."
)

NEAR = 0.01
"""From 1.0; what norms hardly leave in a run of few steps. Runs at a low rate look the same."""

RANK = (Status.PASS, Status.NOTE, Status.WARN, Status.FAIL)


def norms_changed(checkpoint: Checkpoint) -> Verdict:
    verdict = _others_at_one(checkpoint, _norms(checkpoint))
    if verdict.status in (Status.PASS, Status.SKIP, Status.NOTE):
        return _statistics(checkpoint) or verdict
    return verdict


def _statistics(checkpoint: Checkpoint) -> Verdict | None:
    """The warning on a model or a copy of it whose batch norms saw no batch; None for neither."""
    all_states = checkpoint.contents.statistics
    seen = max((state.layers - state.initial for state in all_states if not state.copy), default=0)
    for state in all_states:
        initial = state.initial == state.layers
        where = f"the {state.layers:,} batch norms of {shown(state.state, 60) or 'the model'}"
        text = f"{where} have the statistics of a new model, mean 0 and variance 1"
        if state.copy and initial and seen and not _is_idle(checkpoint, state.state):
            return warn(f"{text}; those of the trained model have seen batches", fix=COPY_FIX)
        steps = length_of_run(checkpoint)
        if not state.state and initial and steps and steps >= MIN_STEPS:
            return warn(f"{text}, after {steps:,} steps", fix=EVAL_FIX)
    return None


def _is_idle(checkpoint: Checkpoint, state: str) -> bool:
    """Whether an average was never updated: then its statistics follow from that (CKP005)."""
    idle = {name.partition(".")[0] for name in checkpoint.training.idle_averages}
    return bool(state) and state.partition(".")[0] in idle


def _others_at_one(checkpoint: Checkpoint, verdict: Verdict) -> Verdict:
    """The verdict with other parameters whose initial value is 1.0."""
    vectors = checkpoint.contents.initialized_to_one
    initial = [vector for vector in vectors if vector.value == "ones"]
    if not initial or verdict.status is Status.UNKNOWN:
        return verdict
    summary = (
        f"{verdict.summary}; of {len(vectors)} other parameters that are initialized to 1.0, "
        f"{len(initial)} are exactly 1.0: {names_of(initial)}"
    )
    if verdict.status in (Status.PASS, Status.SKIP) and _long_run(checkpoint):
        return warn(summary, fix=GRADIENT_FIX)
    return dataclasses.replace(verdict, summary=summary)


def _long_run(checkpoint: Checkpoint) -> bool:
    return distance_of_steps(checkpoint) >= MIN_DISTANCE


def _norms(checkpoint: Checkpoint) -> Verdict:
    norms = checkpoint.contents.norms
    if reason := checkpoint.not_inspectable:
        return unknown(reason)
    if not checkpoint.contents.tensors:
        return unknown("no header could be read")
    if not norms:
        return skip("no norm weights in these files, as in adapters and models like OLMo v1")
    if reason := _not_comparable(norms, checkpoint.values):
        return unknown(reason)
    initial = [norm for norm in norms if norm.value != "other"]
    if not initial:
        return ok(f"{len(norms)} of {len(norms)} norms differ from 1.0 and 0.0{_near(norms)}")
    if verdict := _by_optimizer(checkpoint, initial):
        return verdict
    some = len(initial) < len(norms)
    verdict = some_unchanged(checkpoint, initial) if some else all_unchanged(checkpoint)
    if reason := _undecided(checkpoint):
        return dataclasses.replace(verdict, summary=f"{verdict.summary}; {reason}")
    return verdict


def _near(norms: tuple[Norm, ...]) -> str:
    """That all norms are still close to 1.0, with the figure; "" where one is not."""
    distances = [norm.distance for norm in norms if norm.distance is not None]
    if len(distances) < len(norms) or max(distances) > NEAR:
        return ""
    figure = f"{max(distances):.2g} of 1.0"
    return f"; what was read of them is within {figure}, as after few steps or at a low rate"


def _not_comparable(norms: tuple[Norm, ...], values: Values | Unknown | None) -> str:
    """Why the norms cannot be compared with their initial value, "" if they can."""
    lost = [norm for norm in norms if norm.value == "zeros"]
    if lost and isinstance(values, Values) and values.zero_ranges:
        text = f"{counted(len(lost), 'norm')} may lie in the zeros that the files have (CKP005)"
        return f"{text}, such as {shown(lost[0].name)}"
    for value, problem in (("unread", "could not be read"), ("nonfinite", "hold NaN or Inf")):
        if affected := [norm for norm in norms if norm.value == value]:
            first = shown(affected[0].name)
            return f"{len(affected)} of {len(norms)} norms {problem}, such as {first}"
    return ""


def _by_optimizer(checkpoint: Checkpoint, initial: list[Norm]) -> Verdict | None:
    """The verdict where the optimizer's state decides; None where it does not."""
    optimizer, norms = checkpoint.training.optimizer, checkpoint.contents.norms
    if not isinstance(optimizer, Optimizer) or optimizer.norms is None:
        return None
    explanations = causes(checkpoint, optimizer, initial, legitimate(checkpoint))
    if not explanations:
        return None
    worst = max(explanations, key=lambda cause: RANK.index(cause.status))
    reasons = "; ".join(cause.summary for cause in explanations)
    matched = MATCHED_BY[optimizer.norms.matched_by or "names"]
    summary = f"{observed_norms(norms, initial)}: {reasons} ({matched})"
    status = worst.status
    if len(initial) < len(norms) and worst.fix in (NO_GRADIENT_FIX, LEFT_OUT_FIX):
        status = Status.WARN
        summary = f"{summary}, as in unused modules: {names_of(initial)}"
    if status in (Status.PASS, Status.NOTE):
        return Verdict(status, summary)
    verdict = fail if status is Status.FAIL else warn
    return verdict(summary, fix=worst.fix, sources=worst.sources)


def _undecided(checkpoint: Checkpoint) -> str:
    """Why the optimizer's state does not decide, "" where there is none."""
    optimizer = checkpoint.training.optimizer
    if isinstance(optimizer, Unknown):
        return unread_state(optimizer)
    if optimizer is None or optimizer.norms is None or optimizer.norms.matched_by:
        return ""
    return f"the optimizer's state cannot be matched with the norms: {optimizer.norms.reason}"


NORMS = Check(
    code="CKP004",
    slug="norms-changed",
    aliases=("norms-moved",),
    title="The norms differ from their initial value",
    why="Norm weights are initialized to 1.0, where bf16 rounds back a decrease of up to 2^-9 "
    "(0.00195) and an increase of up to 2^-8: with bf16 weights and typical learning rates every "
    "update is lost, and the norms never train. Norms without a gradient look the same. A bf16 "
    "copy of fp32 weights does not, after a long run.",
    passes=(
        "every norm differs from all ones and all zeros, bit for bit",
        "the optimizer's fp32 copies of the norms changed: only the saved copy is rounded",
        "the optimizer's moments for them are fp32 and not zero, and the run was short: a random "
        "walk of its steps covers less than 0.001",
    ),
    notes=(
        "all norms are exactly 1.0 or 0.0 in weights alone, and their family is released so or "
        "folds them (in others it is unknown whether they trained)",
        "the optimizer has not stepped yet",
    ),
    warns=(
        "some norms are exactly 1.0 or 0.0 while others changed, without evidence of rounding",
        "the optimizer took fewer than 10 steps",
        "the optimizer's moments are not zero, and rounding does not explain the norms: fp32 "
        "weights, 0.0, Kahan summation, or a learning rate beyond eight times the rounding",
        "without an optimizer's state: the learning rates are unknown, or sqrt(sum of lr^2) over "
        "the logged steps is below 0.001",
        "the steps of the optimizer do not follow from its learning rate (SGD, Rprop, Adagrad)",
        "adapters lie in the same file, the model is quantized, its family is released so (OPT), "
        "or the norms are 0.0 in a family that is not known to be zero-centered",
        "the batch norms of an average of the weights have a mean of 0 and a variance of 1, while "
        "those of the model have seen batches; or the model's own have, after 10 or more steps",
        "other parameters initialized to 1.0 (Mamba's D, LayerScale, IA3) are exactly 1.0 after a "
        "long run",
    ),
    fails=(
        "norms are at their initial value, and the optimizer's moments for them are bf16 or fp16 "
        "and not zero: the updates were lost to rounding",
        "the same with fp32 moments in an optimizer that keeps them so for bf16 weights, after a "
        "random walk of 0.001",
        "all norms are at their initial value, and the optimizer has no state for them, moments "
        "that are all zero, or does not have them in its groups",
        "without an optimizer's state: all norms are at their initial value although sqrt(sum of "
        "lr^2) over the logged steps is at least 0.001",
    ),
    fix="If the model was trained, check whether its weights were in bf16 during training and "
    "whether the norms received gradients. If it was not trained, or its norms were folded into "
    "the next layers, nothing is wrong.",
    limits="that the norms learned well: one different bit suffices.",
    owner=Owner.JOB,
    judge=norms_changed,
    required="checkpoint",
    sources=(
        "fnr-precision",
        "fnr-root",
        "fnr-fix",
        "fnr-gradients",
        "speculators-765",
        "flame-47",
        "transformers-24243",
        "optimi",
    ),
    after=("CKP001",),
)

CHECKS = (NORMS,)
