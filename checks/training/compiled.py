"""The user's training step under torch.compile."""

from __future__ import annotations

import math

from doctor.errors.causes import BY_ID
from doctor.errors.fitted import worded
from doctor.errors.match import first
from doctor.facts.own_model import Compiled, OwnModel
from doctor.job.job import Chosen, Job
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn

TOLERANCES = {"fp32": 1e-3, "fp16": 1e-2, "bf16": 5e-2}
"""Relative error of the gradients, compiled against eager. Our own numbers, about ten times those
of a small Llama: fused operations round less often, and every reported bug is much larger."""

MOST_ROUNDING = 1.5
"""Error of the compiled gradients against fp32 as a multiple of the eager ones' that is still
rounding. Our own number: both round the same operations, in another order."""

COMPILE_ERRORS = tuple(
    BY_ID[id]
    for id in (
        "compiler-missing",
        "triton-missing",
        "ptxas-arch",
        "compiler-not-usable",
        "tf32-two-apis",
    )
)


def compiled_agrees(own: OwnModel, job: Job, chosen: Chosen) -> Verdict:
    if not job.compile:
        return skip("the job has no --compile")
    compiled = own.compiled
    if compiled is None:
        return unknown("the compiled step was not tried, see SMK005")
    if compiled.ended.how == "timeout":
        summary = f"{own.description}: {compiled.ended.detail}; required: the step completes"
        return warn(summary, fix=SLOW_FIX)
    if not compiled.ended.ok:
        reason = compiled.ended.detail or compiled.ended.how
        summary = f"{own.description}: torch.compile: {reason}; required: the step completes"
        pattern = first(compiled.ended.detail, COMPILE_ERRORS)
        if pattern is None:
            return fail(summary)
        pattern = worded(pattern, compiled.ended.detail)
        return fail(summary, fix=pattern.fix, owner=pattern.owner, sources=pattern.sources)
    return _agreement(own, compiled, TOLERANCES[chosen.precision])


def _agreement(own: OwnModel, result: Compiled, tolerance: float) -> Verdict:
    if result.eager is None or result.compiled is None or result.error is None:
        return unknown("the compiled step was not compared")
    if not _finite(result.eager.loss, result.eager.grad_norm):
        return unknown("the eager step is not finite, see SMK006")
    eager, compiled = float(result.eager.loss), float(result.compiled.loss)
    loss_error = abs(compiled - eager) / max(abs(eager), 1e-12)
    summary = (
        f"{own.description}: loss {compiled:.6g} compiled, {eager:.6g} eager; relative error of "
        f"the gradients {float(result.error):.2g}, <= {tolerance:g} required; compiled in "
        f"{result.ended.seconds:.0f} s"
    )
    if not _finite(compiled, result.error):
        return fail(summary)
    if max(float(result.error), loss_error) <= tolerance:
        return ok(summary)
    where = f"; the largest difference is in {result.differs_most}" if result.differs_most else ""
    if result.eager_error is None or result.compiled_error is None:
        return fail(f"{summary}{where}")
    rounding, error = float(result.eager_error), float(result.compiled_error)
    summary += f"; against fp32 eager errs by {rounding:.2g}, compiled by {error:.2g}"
    if loss_error <= tolerance and error <= MOST_ROUNDING * rounding:
        return ok(f"{summary}, which is rounding")
    return fail(f"{summary}{where}")


def _finite(*numbers: float | str) -> bool:
    return all(math.isfinite(float(number)) for number in numbers)


SLOW_FIX = (
    "Compile a block instead of the whole model (regional compilation), keep the compiler's cache "
    "(TORCHINDUCTOR_CACHE_DIR) on persistent storage, or train eagerly: large models compile for "
    "minutes."
)

COMPILED = Check(
    code="SMK010",
    slug="compiled-agrees",
    title="The compiled step agrees with the eager one",
    why="torch.compile generates other kernels for the same step. If the compiler is missing, the "
    "first step raises; if it miscompiles, the loss looks plausible and the gradients are wrong. "
    "The same weights and batch are run both ways in eval mode, because the compiler draws other "
    "random numbers for dropout. Graph breaks are not errors.",
    passes=(
        "the relative Frobenius error of all gradients is at most 1e-3 in fp32, 1e-2 in fp16, 5e-2 "
        "in bf16",
        "so is the relative error of the loss",
        "or the compiled gradients err by at most 1.5 times as much as the eager ones, both "
        "compared with a step in fp32: the model amplifies rounding",
    ),
    warns=("compilation takes more than the deadline of three minutes",),
    fails=(
        "compilation or the compiled step raises or crashes",
        "compiled and eager results differ by more",
    ),
    fix="Train without torch.compile, or exclude the part that differs with "
    "torch.compiler.disable; upgrade torch. TORCH_COMPILE_DEBUG=1 writes the generated code.",
    limits="that other shapes compile: a new length of the batch compiles again.",
    owner=Owner.ENVIRONMENT,
    judge=compiled_agrees,
    returns=True,
    required="smoke",
    sources=("bts-fix6", "pytorch-166387"),
    after=("TOR001",),
)

CHECKS = (COMPILED,)
