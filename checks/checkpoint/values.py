"""A checkpoint's values: finite, and different from those of an earlier checkpoint."""

from __future__ import annotations

import re

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.records import (
    Checkpoint,
    Movement,
    NonFinite,
    Optimizer,
    UnchangedRole,
    Values,
)
from doctor.checks.checkpoint.norm_causes import (
    HALF_PRECISION,
    MIN_DISTANCE,
    MIN_STEPS,
    distance_of_steps,
)
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn

CONSTANT = re.compile(
    r".*(?:inv_freq|position_ids|attn\.(?:masked_)?bias|masked_bias|relative_position_index"
    r"|num_batches_tracked|cos_cached|sin_cached)"
)
"""Buffers that training does not change."""

MASK = re.compile(r".*(?:mask|attn_bias|attention_bias)")

ZERO_INITIALIZED = re.compile(
    r".*(?:lora_(?:b|embedding_a)|zero|adaln|ada_?norm|modulation|controlnet|adapter|prompt"
    r"|position|token_type|relative|rotary|inv_freq|bias|mask|buffer|cache).*"
)
"""Matrices that are initialized to zero on purpose, or hold constants."""

PADDED = ("embedding", "head")
"""Parts whose last rows are often zeros: tokens that do not exist."""


def values_finite(checkpoint: Checkpoint) -> Verdict:
    values = checkpoint.values
    if values is None:
        return _vectors_finite(checkpoint)
    if isinstance(values, Unknown):
        return unknown(f"the values could not be read: {values.reason}")
    if nonfinite := [tensor for tensor in values.nonfinite if not tensor.masks]:
        rest = values.nonfinite_tensors - 1
        more = f" (and {rest:,} more tensor{'s' * (rest != 1)})" if rest > 0 else ""
        summary = f"{_counts(nonfinite[0])}{more}; every stored value finite required"
        return fail(summary, seconds=values.seconds)
    if values.differing:
        more = f" and {len(values.differing) - 1:,} more" * (len(values.differing) > 1)
        summary = f"the SHA-256 of {values.differing[0]}{more} is not the one that the Hub gave"
        return fail(summary, fix=CHECKSUM_FIX, seconds=values.seconds)
    if values.problems:
        return unknown(values.problems[0].message, seconds=values.seconds)
    if not values.tensors and not values.exempt:
        return unknown("no tensor's values could be read", seconds=values.seconds)
    if values.unchecked:
        dtypes = ", ".join(shown(dtype, 20) for dtype in list(values.unchecked)[:3])
        return unknown(f"stored in {dtypes}, whose values cannot be decoded")
    return _finite(values)


def _vectors_finite(checkpoint: Checkpoint) -> Verdict:
    """Without --deep: the norms and similar vectors, as far as they were read."""
    vectors = (*checkpoint.contents.norms, *checkpoint.contents.initialized_to_one)
    nonfinite = [vector for vector in vectors if vector.value == "nonfinite"]
    if not nonfinite:
        return skip("not requested: --deep reads every value")
    more = f" and {len(nonfinite) - 1} more" if len(nonfinite) > 1 else ""
    return fail(f"{shown(nonfinite[0].name)}{more}: NaN or Inf; every value finite required")


def _finite(values: Values) -> Verdict:
    masks = len(values.nonfinite)
    parts = ((values.further, "of other state_dicts"), (values.moments, "of the optimizer"))
    of = ", ".join(f"{count:,} {name}" for count, name in parts if count)
    summary = f"{values.tensors:,} tensors" + f" ({of})" * bool(of)
    summary += f", {values.bytes:,} bytes: every value finite"
    summary += f", apart from -inf in {masks} mask{'s' * (masks != 1)}" if masks else ""
    if values.checksums:
        files = f"{values.checksums:,} file{'s' * (values.checksums != 1)}"
        summary += f", {files} with the SHA-256 of the Hub"
    if lost := _zeros(values):
        return warn(f"{summary}; {lost}", fix=ZEROS_FIX, seconds=values.seconds)
    summary += _alike(values)
    large = [tensor for tensor in values.large if not MASK.fullmatch(tensor.name.casefold())]
    if not large:
        return ok(summary, seconds=values.seconds)
    count = sum(tensor.large for tensor in large)
    return warn(
        f"{summary}; {count:,} of {values.fp16_values:,} fp16 values are beyond 32752, such as in "
        f"{shown(large[0].name)}; fp16's largest is 65504",
        fix=LARGE_FIX,
        seconds=values.seconds,
    )


def _counts(tensor: NonFinite) -> str:
    kinds = (("NaN", tensor.nan), ("+inf", tensor.plus_inf), ("-inf", tensor.minus_inf))
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds if count)
    total = f"of {tensor.values:,} values in {tensor.dtype}"
    return f"{shown(tensor.name)}: {counts} {total}, the first at index {tensor.first:,}"


def _zeros(values: Values) -> str:
    """Zeros that no training leaves, "" where there are none."""
    for lost in values.zero_ranges:
        if lost.matrices > 1 or lost.kind not in PADDED:
            begin = f"from byte {lost.begin:,} to {lost.end:,} of {lost.file} there are zeros"
            inside = "inside" if lost.inside else "from the beginning of"
            more = f" and {lost.matrices - 1:,} more" if lost.matrices > 1 else ""
            return f"{begin}, {inside} {shown(lost.name)}{more}, as an unfinished download leaves"
    zero = [each.name for each in values.constant if each.zero]
    zero = [name for name in zero if not ZERO_INITIALIZED.fullmatch(name.casefold())]
    if not zero:
        return ""
    more = f" and {len(zero) - 1:,} more" if len(zero) > 1 else ""
    return f"all elements of {shown(zero[0])}{more} are 0.0"


def _alike(values: Values) -> str:
    """What is unusual and can be right: matrices of one value, and copies of others."""
    notes = []
    if constant := [each.name for each in values.constant]:
        notes.append(f"; {len(constant):,} matrices hold one value, such as {shown(constant[0])}")
    if values.copies:
        first = values.copies[0]
        pair = f"{shown(first.name)} and {shown(first.of)}"
        notes.append(f"; {len(values.copies):,} are copies of another, such as {pair}")
    return "".join(notes)


CHECKSUM_FIX = (
    "Download the file again: what is here is not what the Hub has. If it was changed on purpose, "
    "move it out of the cache, which is shared by all programs."
)

ZEROS_FIX = (
    "Compare the file's checksum with the source's, and download it again: a download that "
    "reserves the file's size first leaves zeros where it stopped. Where whole matrices are 0.0 in "
    "a file of the right checksum, they were never trained or are initialized so on purpose."
)

LARGE_FIX = (
    "Load these weights in fp32 or bf16, whose range is larger: a product with such a value "
    "overflows fp16."
)

NOTHING_CHANGED_FIX = (
    "Check that both paths name the intended checkpoints, that optimizer.step() runs and the "
    "GradScaler does not skip it, that its parameters are those of the saved model (create the "
    "optimizer after model.to() and get_peft_model), and that the learning rate is not 0."
)
NORMS_UNCHANGED_FIX = (
    "Keep the weights that the optimizer updates in fp32 and compute under torch.autocast: at 1.0 "
    "bf16 rounds back a decrease of up to 2^-9 and an increase of up to 2^-8. If they are in fp32, "
    "print param.grad of a norm after backward() and look for it in the optimizer's groups."
)


def changed_since_baseline(checkpoint: Checkpoint) -> Verdict:
    movement = checkpoint.movement
    if movement is None:
        return skip("no --baseline")
    if isinstance(movement, Unknown):
        return unknown(f"the checkpoints could not be compared: {movement.reason}")
    if not movement.compared:
        return unknown(f"no tensor could be compared{_not_compared(movement)}")
    summary = f"{movement.changed:,} of {movement.compared:,} tensors changed"
    summary += _not_compared(movement)
    roles = [role for role in movement.unchanged_roles if not CONSTANT.fullmatch(role.role)]
    if not movement.changed:
        since = f"{summary} since {shown(movement.baseline, 300)}"
        return _nothing_changed(checkpoint, movement, roles, since)
    if not roles:
        constant = sum(role.count for role in movement.unchanged_roles)
        note = f"; the {constant:,} others are constant buffers" if constant else ""
        return ok(f"{summary}{note}", seconds=movement.seconds)
    if all(role.kind == "norm" for role in roles):
        return _norms_unchanged(checkpoint, movement, roles, summary)
    count = sum(role.count for role in roles)
    names = ", ".join(f"{role.count:,} x {shown(role.role)}" for role in roles[:3])
    more = f" and {len(roles) - 3} more roles" if len(roles) > 3 else ""
    return warn(
        f"{summary}; {count:,} unchanged: {names}{more}; every parameter changed required, unless "
        "frozen on purpose",
        seconds=movement.seconds,
    )


def _not_compared(movement: Movement) -> str:
    counts = (
        (movement.incomparable, "not comparable"),
        (movement.added, "only here"),
        (movement.removed, "only in the baseline"),
    )
    text = ", ".join(f"{count:,} {reason}" for count, reason in counts if count)
    return f" ({text})" if text else ""


def _nothing_changed(
    checkpoint: Checkpoint, movement: Movement, roles: list[UnchangedRole], summary: str
) -> Verdict:
    if movement.incomparable:
        return unknown(f"{summary}; whether the others changed is unknown")
    if not roles:
        return unknown(f"{summary}; only constant buffers could be compared")
    if all(role.kind == "norm" for role in roles):
        return unknown(f"{summary}; only norms could be compared")
    if steps := _steps(checkpoint):
        return fail(
            f"{summary} after {steps:,.0f} steps; changes required", fix=NOTHING_CHANGED_FIX
        )
    return warn(f"{summary}; the number of steps is unknown", fix=NOTHING_CHANGED_FIX)


def _steps(checkpoint: Checkpoint) -> float:
    training = checkpoint.training
    optimizer = training.optimizer
    taken = optimizer.step_max if isinstance(optimizer, Optimizer) else None
    return taken or training.steps or (training.history.steps if training.history else 0)


def _norms_unchanged(
    checkpoint: Checkpoint, movement: Movement, roles: list[UnchangedRole], summary: str
) -> Verdict:
    count = sum(role.count for role in roles)
    changed, compared = movement.kinds.get("norm", (0, count))
    dtypes = " and ".join(sorted({role.dtype for role in roles}))
    summary = f"{summary}; the {count:,} unchanged are all norms, in {dtypes}"
    if changed:
        summary = f"{summary} ({changed:,} of {compared:,} vectors of norms changed)"
        return warn(summary, fix=NORMS_UNCHANGED_FIX, seconds=movement.seconds)
    if reason := _not_a_rounded_copy(checkpoint, roles):
        return fail(f"{summary}; {reason}", fix=NORMS_UNCHANGED_FIX, seconds=movement.seconds)
    summary = f"{summary}; a rounded copy of fp32 weights that changed little looks the same"
    return warn(summary, fix=NORMS_UNCHANGED_FIX, seconds=movement.seconds)


def _not_a_rounded_copy(checkpoint: Checkpoint, roles: list[UnchangedRole]) -> str:
    """Why these files hold what the optimizer updates, or the run was long; "" for neither."""
    optimizer = checkpoint.training.optimizer
    if not any(role.dtype in HALF_PRECISION for role in roles):
        return "nothing is rounded in these files"
    if isinstance(optimizer, Optimizer) and _updates_half_precision(optimizer):
        kinds = " and ".join(sorted(optimizer.moments))
        return f"the optimizer's moments are {kinds}: it updates weights of that dtype"
    distance = distance_of_steps(checkpoint)
    if distance >= MIN_DISTANCE:
        return f"a random walk with the logged learning rates covers {distance:.2g}"
    return ""


def _updates_half_precision(optimizer: Optimizer) -> bool:
    half = optimizer.moments and set(optimizer.moments) <= {*HALF_PRECISION}
    return bool(half) and not optimizer.masters and (optimizer.step_max or 0) >= MIN_STEPS


FINITE = Check(
    code="CKP005",
    slug="values-finite",
    title="Every stored value is finite",
    why="One NaN or infinity in the weights makes every loss NaN, and nothing reports it before "
    "the first step: safetensors and torch load it silently. In the optimizer's moments one makes "
    "the first resumed step NaN. A download that stopped inside a file of the right length leaves "
    "zeros, which are looked for, too.",
    passes=(
        "no stored value is NaN or infinite, apart from -inf in tensors named as masks: of the "
        "weights, of other state_dicts in the same files, and of the optimizer's state",
    ),
    warns=(
        "fp16 values are beyond 32752, half of fp16's largest",
        "a stretch of zeros begins or ends inside a matrix, apart from rows of embeddings",
        "a matrix is all zeros that is not known to be initialized so (LoRA's B)",
    ),
    fails=(
        "a tensor that is not a mask holds a NaN or an infinity",
        "without --deep: a norm does, as far as it was read",
        "a file from the Hugging Face Hub has another SHA-256 than the Hub gave for it, in its "
        "cache or beside a download",
    ),
    fix="Return to a checkpoint from before the training diverged, or download the file again and "
    "compare its checksum with the source's.",
    limits="that the values are good: finite ones can be wrong too. The states of schedulers, "
    "random generators and callbacks are not read, and a stretch of zeros shorter than 4 MiB can "
    "be missed.",
    owner=Owner.JOB,
    judge=values_finite,
    required="checkpoint",
    sources=("ps-P14", "ps-P12", "vllm-53537"),
)

CHANGED = Check(
    code="CKP007",
    slug="changed-since-baseline",
    aliases=("moved-since-baseline",),
    title="Every parameter changed since the baseline",
    why="A parameter that is bit for bit unchanged gets no gradient, is not in the optimizer, or "
    "loses every update to rounding. A falling loss does not reveal it, since the others train. "
    "Norms that alone are unchanged are typical of weights in bf16: their updates are small "
    "relative to their values.",
    passes=("every tensor that could be compared changed, apart from constant buffers",),
    warns=(
        "some parameters are unchanged",
        "only norms are unchanged, and the files may be a rounded copy of fp32 weights",
        "nothing changed, and the number of steps is unknown",
    ),
    fails=(
        "nothing changed although steps were taken, and all tensors could be compared",
        "no norm changed while other parameters did, and the files are not a rounded copy (fp32 "
        "norms, or moments in bf16 or fp16)",
        "no norm changed while other parameters did, and a random walk with the logged learning "
        "rates covers at least 0.001",
    ),
    fix="For the parameters named, check requires_grad, the optimizer's param_groups, and "
    "param.grad after backward(). If they are frozen on purpose, nothing is wrong.",
    limits="that the parameters changed enough: one different bit suffices.",
    owner=Owner.JOB,
    judge=changed_since_baseline,
    required="checkpoint",
    sources=("fnr-diagnosis", "fnr-precision", "fnr-fix"),
)

CHECKS = (FINITE, CHANGED)
