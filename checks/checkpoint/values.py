"""What a checkpoint's values are: finite, and other than those of an earlier checkpoint."""

from __future__ import annotations

import math
import re

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.records import Checkpoint, Moves, NonFinite, Optimizer, Unmoved, Values
from doctor.checks.checkpoint.norm_causes import EARLY, FAR, LOW
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn

CONSTANT = re.compile(
    r".*(?:inv_freq|position_ids|attn\.(?:masked_)?bias|masked_bias|relative_position_index"
    r"|num_batches_tracked|cos_cached|sin_cached)"
)
"""Buffers that no training changes."""

MASK = re.compile(r".*(?:mask|attn_bias|attention_bias)")


def values_finite(checkpoint: Checkpoint) -> Verdict:
    values = checkpoint.values
    vectors = (*checkpoint.norms, *checkpoint.born_at_one)
    if values is None and (broken := [each for each in vectors if each.value == "nonfinite"]):
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        return fail(f"{shown(broken[0].name)}{more}: NaN or Inf; every value finite required")
    if values is None:
        return skip("not asked for: --deep reads every value")
    if isinstance(values, Unknown):
        return unknown(f"the values could not be read: {values.reason}")
    bad = [tensor for tensor in values.nonfinite if not tensor.masks]
    if bad:
        rest = values.nonfinite_tensors - 1
        more = f" (and {rest:,} more tensor{'s' * (rest != 1)})" if rest > 0 else ""
        said = f"{_nonfinite(bad[0])}{more}; every stored value finite required"
        return fail(said, seconds=values.seconds)
    if values.problems:
        return unknown(values.problems[0].said, seconds=values.seconds)
    if not values.tensors and not values.exempt:
        return unknown("no tensor's values could be read", seconds=values.seconds)
    if values.unchecked:
        said = ", ".join(shown(dtype, 20) for dtype in list(values.unchecked)[:3])
        return unknown(f"stored in {said}, whose values the doctor does not know")
    return _finite(values)


def _finite(values: Values) -> Verdict:
    masks = len(values.nonfinite)
    said = f"{values.tensors:,} tensors, {values.bytes:,} bytes: every value finite"
    said += f", but for -inf in {masks} mask{'s' * (masks != 1)}" if masks else ""
    large = [tensor for tensor in values.large if not MASK.fullmatch(tensor.name.casefold())]
    if large:
        count = sum(tensor.large for tensor in large)
        return warn(
            f"{said}; {count:,} of {values.fp16_values:,} fp16 values are beyond 32752, within a "
            f"factor of two of fp16's largest, such as in {shown(large[0].name)}",
            fix=LARGE_FIX,
            seconds=values.seconds,
        )
    return ok(said, seconds=values.seconds)


def _nonfinite(tensor: NonFinite) -> str:
    kinds = (("NaN", tensor.nan), ("+inf", tensor.plus_inf), ("-inf", tensor.minus_inf))
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds if count)
    of = f"of {tensor.values:,} values in {tensor.dtype}"
    return f"{shown(tensor.name)}: {counts} {of}, the first at index {tensor.first:,}"


LARGE_FIX = (
    "Load these weights in fp32 or bf16, whose exponents reach further: a product with such a "
    "value overflows fp16."
)

ALL_STILL_FIX = (
    "See that both paths name what you mean, that optimizer.step() runs and is not skipped by the "
    "GradScaler, that its parameters are those of the model that is saved (make the optimizer "
    "after model.to() and after get_peft_model), and that the learning rate is not 0."
)
NORMS_STILL_FIX = (
    "Keep the weights that the optimizer steps in fp32 and compute under torch.autocast: at 1.0 "
    "bf16 rounds back a decrease of up to 2^-9 and an increase of up to 2^-8. If they are in fp32, "
    "print param.grad of a norm after backward() and look for it in the optimizer's groups."
)


def moved_since_baseline(checkpoint: Checkpoint) -> Verdict:
    moves = checkpoint.moves
    if moves is None:
        return skip("no --baseline was given")
    if isinstance(moves, Unknown):
        return unknown(f"the two could not be compared: {moves.reason}")
    if not moves.compared:
        return unknown(f"no tensor could be compared{_uncompared(moves)}")
    said = f"{moves.moved:,} of {moves.compared:,} tensors moved{_uncompared(moves)}"
    still = [group for group in moves.still if not CONSTANT.fullmatch(group.role)]
    constant = sum(group.count for group in moves.still) - sum(group.count for group in still)
    if not moves.moved:
        since = f"{said} since {shown(moves.baseline, 300)}"
        return _nothing_moved(checkpoint, moves, still, since)
    if not still:
        note = f"; the {constant:,} that did not are constant buffers" if constant else ""
        return ok(f"{said}{note}", seconds=moves.seconds)
    count = sum(group.count for group in still)
    if all(group.kind == "norm" for group in still):
        return _norms_still(checkpoint, moves, still, said)
    names = ", ".join(f"{group.count:,} x {shown(group.role)}" for group in still[:3])
    more = f" and {len(still) - 3} more roles" if len(still) > 3 else ""
    return warn(
        f"{said}; {count:,} did not: {names}{more}; frozen on purpose, or without a gradient",
        seconds=moves.seconds,
    )


def _uncompared(moves: Moves) -> str:
    counts = (
        (moves.incomparable, "not comparable"),
        (moves.added, "only here"),
        (moves.removed, "only in the baseline"),
    )
    said = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    return f" ({said})" if said else ""


def _nothing_moved(
    checkpoint: Checkpoint, moves: Moves, still: list[Unmoved], said: str
) -> Verdict:
    if moves.incomparable:
        return unknown(f"{said}; whether those that are not comparable moved is not told")
    if not still:
        return unknown(f"{said}; only constant buffers could be compared")
    if all(group.kind == "norm" for group in still):
        return unknown(f"{said}; only norms could be compared")
    steps = _steps(checkpoint)
    if steps:
        return fail(f"{said}, although {steps:,.0f} steps were taken", fix=ALL_STILL_FIX)
    return warn(f"{said}; whether steps were taken between them is not told", fix=ALL_STILL_FIX)


def _steps(checkpoint: Checkpoint) -> float:
    optimizer = checkpoint.optimizer
    taken = optimizer.step_max if isinstance(optimizer, Optimizer) else None
    return taken or checkpoint.step or (checkpoint.history.steps if checkpoint.history else 0)


def _norms_still(checkpoint: Checkpoint, moves: Moves, still: list[Unmoved], said: str) -> Verdict:
    count = sum(group.count for group in still)
    moved, compared = moves.kinds.get("norm", (0, count))
    dtypes = " and ".join(sorted({group.dtype for group in still}))
    words = f"{said}; the {count:,} that did not are all norms, in {dtypes}"
    if moved:
        words = f"{words} ({moved:,} of {compared:,} vectors of norms moved)"
        return warn(words, fix=NORMS_STILL_FIX, seconds=moves.seconds)
    if why := _no_rounded_copy(checkpoint, still):
        return fail(f"{words}; {why}", fix=NORMS_STILL_FIX, seconds=moves.seconds)
    words = f"{words}; fp32 weights that moved little look so in a copy that was rounded"
    return warn(words, fix=NORMS_STILL_FIX, seconds=moves.seconds)


def _no_rounded_copy(checkpoint: Checkpoint, still: list[Unmoved]) -> str:
    """Why these files are what the optimizer steps, or the run went far; "" where neither."""
    history = checkpoint.history
    if not any(group.dtype in LOW for group in still):
        return "nothing is rounded in these files"
    if isinstance(checkpoint.optimizer, Optimizer) and _steps_low_weights(checkpoint.optimizer):
        kinds = " and ".join(sorted(checkpoint.optimizer.moments))
        return f"the optimizer's moments are {kinds}: it steps weights of that dtype"
    distance = math.sqrt(history.lr_squares) if history else 0.0
    if distance >= FAR:
        return f"a random walk of the logged learning rates goes {distance:.2g}"
    return ""


def _steps_low_weights(optimizer: Optimizer) -> bool:
    low = optimizer.moments and set(optimizer.moments) <= {*LOW}
    return bool(low) and not optimizer.masters and (optimizer.step_max or 0) >= EARLY


CHECKS = (
    Check(
        code="CKP005",
        slug="values-finite",
        title="Every stored value is finite",
        why="One NaN or infinity in the weights makes every loss NaN, and nothing says so before "
        "the first step: safetensors and torch load it without a word. A download that went wrong "
        "inside a file of the right length shows here too.",
        passes=("no stored value is NaN or infinite, apart from -inf in what is called a mask",),
        warns=("fp16 values are beyond 32752, within a factor of two of fp16's largest",),
        fails=(
            "a tensor that is no mask holds a NaN or an infinity",
            "without --deep: a norm does, as far as it was read",
        ),
        fix="Go back to a checkpoint from before the training diverged, or fetch the file again "
        "and compare its checksum with the source's.",
        limits="that the values are good: finite ones can be wrong too.",
        owner=Owner.JOB,
        judge=values_finite,
        required="checkpoint",
        sources=("ps-P8", "vllm-53537"),
    ),
    Check(
        code="CKP007",
        slug="moved-since-baseline",
        title="Every parameter moved since the baseline",
        why="A parameter that is bit for bit what it was gets no gradient, is not in the "
        "optimizer, or loses every update to rounding. A loss that falls does not show it, since "
        "the others train. Norms that alone stand still are the mark of weights in bf16: their "
        "values near 1.0 are where bf16 is coarsest.",
        passes=(
            "every tensor that could be compared differs from the baseline, apart from "
            "constant buffers such as inv_freq",
        ),
        warns=(
            "some parameters did not move",
            "norms alone did not, and a rounded copy of fp32 weights may look so",
            "nothing moved and no step count is told",
        ),
        fails=(
            "nothing moved although steps were taken, and all tensors, not norms alone, "
            "could be compared",
            "no norm moved while other parameters did, and the files are not a rounded "
            "copy (fp32 norms, moments in bf16 or fp16) or the logged learning rates make "
            "a random walk of 0.001",
        ),
        fix="Freeze on purpose or not at all: look at requires_grad, at the optimizer's "
        "param_groups, and at param.grad after backward() for the parameters that are named.",
        limits="that what moved moved enough: one bit that differs is enough to pass.",
        owner=Owner.JOB,
        judge=moved_since_baseline,
        required="checkpoint",
        sources=("fnr-diagnosis", "fnr-precision", "fnr-fix", "ps-P18"),
    ),
)
