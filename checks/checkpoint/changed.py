"""How far the values of a checkpoint moved from its baseline."""

from __future__ import annotations

import re

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.dtypes import HALVES
from doctor.checkpoint.records import Checkpoint, Movement, Optimizer, UnchangedRole
from doctor.checks.checkpoint.norm_causes import MIN_DISTANCE, MIN_STEPS, distance_of_steps
from doctor.checks.checkpoint.replaced import replaced
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

CONSTANT = re.compile(
    r".*(?:inv_freq|position_ids|attn\.(?:masked_)?bias|masked_bias|relative_position_index"
    r"|num_batches_tracked|cos_cached|sin_cached)"
)
"""Buffers that training does not change."""

LAYER = re.compile(r"(?:^|\.)(\d+)\.")

FROZEN_FIX = (
    "If these layers were not frozen on purpose, look for a detach() or no_grad() above them, and "
    "for their parameters in the optimizer's groups."
)
MERGED_FIX = (
    "If the others should have trained, too, look for their parameters in the optimizer's groups."
)
NOTHING_CHANGED_FIX = (
    "Check that both paths name the intended checkpoints, that optimizer.step() runs and the "
    "GradScaler does not skip it, that its parameters are those of the saved model (create the "
    "optimizer after model.to() and get_peft_model), and that the learning rate is not 0."
)
FELL = 0.9
"""Share of the first logged losses below which they fell. Our own number."""
NOT_SAVED_FIX = (
    "Save the object that was trained: the model that Trainer, get_peft_model or prepare() "
    "returned, unwrapped, or merged (merge_and_unload), and not a copy, nor the base as it was "
    "loaded. Look for the trained weights in an earlier checkpoint of the run."
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
    return replaced(checkpoint, movement) or _unchanged(checkpoint, movement, summary)


def _unchanged(checkpoint: Checkpoint, movement: Movement, summary: str) -> Verdict:
    """What is bit for bit as it was."""
    roles = [role for role in movement.unchanged_roles if not CONSTANT.fullmatch(role.role)]
    if not movement.changed:
        since = f"{summary} since {shown(movement.baseline, 300)}"
        return _nothing_changed(checkpoint, movement, roles, since)
    if not roles:
        constant = sum(role.count for role in movement.unchanged_roles)
        others = f"; the {constant:,} others are constant buffers" if constant else ""
        return ok(f"{summary}{others}", seconds=movement.seconds)
    if all(role.kind == "norm" for role in roles):
        return _norms_unchanged(checkpoint, movement, roles, summary)
    count = sum(role.count for role in roles)
    frozen = _frozen_below(checkpoint, movement, roles) or _not_stepped(checkpoint, movement)
    if frozen:
        text = f"{summary}; {count:,} unchanged, all of {frozen}, as layers that are frozen"
        return note(text, fix=FROZEN_FIX, seconds=movement.seconds)
    if _by_role(checkpoint, movement, roles):
        text = (
            f"{summary}: some kinds of matrices in every layer, and nothing of the {count:,} others"
        )
        return note(f"{text}, as after merging adapters", fix=MERGED_FIX, seconds=movement.seconds)
    names = ", ".join(f"{role.count:,} x {shown(role.role)}" for role in roles[:3])
    more = f" and {len(roles) - 3} more roles" if len(roles) > 3 else ""
    return warn(
        f"{summary}; {count:,} unchanged: {names}{more}; every parameter changed required, unless "
        "frozen on purpose",
        seconds=movement.seconds,
    )


def _frozen_below(checkpoint: Checkpoint, movement: Movement, roles: list[UnchangedRole]) -> str:
    """The first layers, where all that is in them is unchanged and in no optimizer; "" else."""
    optimizer = checkpoint.training.optimizer
    if isinstance(optimizer, Optimizer) and optimizer.parameters >= checkpoint.contents.tensors:
        return ""
    if any(role.kind != "embedding" for role in roles if "*" not in role.role):
        return ""
    still = {
        match[1]
        for role in roles
        for name in role.names
        if "*" in role.role and (match := LAYER.search(name))
    }
    moved = {row.layer for row in movement.layers if row.relative}
    if still != {str(number) for number in range(len(still))} or still & moved or not moved - {""}:
        return ""
    first = "layer 0" if len(still) == 1 else f"layers 0 to {len(still) - 1}"
    outside = any("*" not in role.role for role in roles)
    return (f"{first} and the embedding" if outside else first) if still else ""


def _by_role(checkpoint: Checkpoint, movement: Movement, roles: list[UnchangedRole]) -> bool:
    """Whether matrices of attention and MLP changed by their kind, all layers alike, and no
    optimizer is here that would hold the others: what the modules of an adapter leave."""
    layers = {number[1] for role in roles for n in role.names if (number := LAYER.search(n))}
    moved = {kind for kind, (changed, _) in movement.kinds.items() if changed}
    alike = all(role.count == role.compared for role in roles)
    parts = bool(moved) and moved <= {"attention", "MLP"}
    return alike and parts and len(layers) > 1 and checkpoint.training.optimizer is None


def _not_stepped(checkpoint: Checkpoint, movement: Movement) -> str:
    """What the optimizer does not hold, where it holds no more than what changed; "" else."""
    optimizer = checkpoint.training.optimizer
    if not isinstance(optimizer, Optimizer) or optimizer.entries != optimizer.parameters:
        return ""
    stepped = optimizer.parameters
    held = f"what is not among the {stepped:,} parameters of the optimizer"
    return held if 0 < stepped <= movement.changed else ""


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
        history = checkpoint.training.history
        if history and history.losses and history.losses[2] < FELL * history.losses[0]:
            first, _, now = history.losses
            learned = f"the logged loss fell from {first:.3g} to {now:.3g}"
            text = f"{summary} after {steps:,.0f} steps, although {learned}"
            return fail(f"{text}: what was trained is not what was saved", fix=NOT_SAVED_FIX)
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
    if not any(role.dtype in HALVES for role in roles):
        return "nothing is rounded in these files"
    if isinstance(optimizer, Optimizer) and _updates_half_precision(optimizer):
        kinds = " and ".join(sorted(optimizer.moments))
        return f"the optimizer's moments are {kinds}: it updates weights of that dtype"
    distance = distance_of_steps(checkpoint)
    if distance >= MIN_DISTANCE:
        return f"a random walk with the logged learning rates covers {distance:.2g}"
    return ""


def _updates_half_precision(optimizer: Optimizer) -> bool:
    half = optimizer.moments and set(optimizer.moments) <= {*HALVES}
    return bool(half) and not optimizer.masters and (optimizer.step_max or 0) >= MIN_STEPS


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
    notes=(
        "the optimizer holds no more parameters than changed, so that the others are not in it",
        "some kinds of matrices of attention and MLP changed in all layers and nothing else did, "
        "as after merging adapters, and no optimizer is beside them",
        "all of the first layers is unchanged, and of the rest nothing but the embedding: as "
        "layers that are frozen on purpose",
        "matrices hold values that the baseline has elsewhere, and layers of it are not here",
        "matrices are the baseline's, transposed, as others are by their shapes: another layout",
    ),
    warns=(
        "other parameters are unchanged",
        "only norms are unchanged, and the files may be a rounded copy of fp32 weights",
        "nothing changed, and the number of steps is unknown",
        "single matrices are several times what they were, while most moved little; or a head or "
        "an embedding has nothing in common with the baseline's",
        "most matrices have nothing in common with the baseline's",
        "matrices hold values that the baseline has in other matrices",
    ),
    fails=(
        "matrices of layers have nothing in common with the baseline's, while most moved little",
        "matrices are the baseline's, transposed",
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

CHECKS = (CHANGED,)
