"""Whether an optimizer's state is that of the weights beside it."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint, Optimizer
from doctor.checks.checkpoint.optimizer import NO_STATE, unread_state
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn


def optimizer_fits(checkpoint: Checkpoint) -> Verdict:
    optimizer = checkpoint.training.optimizer
    if optimizer is None:
        return _without_optimizer(checkpoint)
    if isinstance(optimizer, Unknown):
        return unknown(unread_state(optimizer))
    if not checkpoint.contents.tensors:
        return unknown("the weights could not be read")
    if checkpoint.model.quantized:
        return skip("quantized weights have other shapes than those that were trained")
    if optimizer.fit is None:
        return skip(f"{optimizer.kind}: its entries do not show the shapes of single weights")
    return _fits(optimizer, optimizer.entries)


def _fits(optimizer: Optimizer, entries: int) -> Verdict:
    fit = optimizer.fit
    assert fit is not None
    if fit.ungrouped:
        groups = f"{optimizer.parameters - fit.ungrouped:,} parameters in the groups"
        return warn(f"state for {entries:,} parameters, {groups}; the same required", fix=FIT_FIX)
    if all(fit.resized):
        before, now = fit.resized
        text = f"{fit.foreign:,} of {entries:,} entries have {before:,} rows, their weights {now:,}"
        return fail(f"{text}: the vocabulary was resized after these steps", fix=RESIZED_FIX)
    if fit.foreign:
        shape = f"such as {list(fit.example)}" if fit.example else "scalars"
        text = (
            f"{fit.foreign:,} of {entries:,} entries are for shapes that no further weight of "
            f"these files has, {shape}"
        )
        if 2 * fit.foreign >= entries:
            return warn(f"{text}; the state of these weights required", fix=FIT_FIX)
        return note(f"{text}, as parameters of a loss or of another module are")
    rest = fit.weights - optimizer.parameters
    frozen = f"; {rest:,} weights are not in it, as frozen ones are" if rest > 0 else ""
    return ok(f"{entries:,} entries have the shapes of {fit.weights:,} weights{frozen}")


def _without_optimizer(checkpoint: Checkpoint) -> Verdict:
    others = checkpoint.files.others
    scheduler = next((name for name in others if name.startswith("scheduler.")), "")
    if scheduler and checkpoint.training.history:
        text = f"{scheduler} and trainer_state.json are here and no optimizer's state"
        return warn(f"{text}: a resumed run begins with empty moments", fix=LOST_FIX)
    return skip(NO_STATE)


FIT_FIX = (
    "Resume with the weights and the optimizer of one save: load_state_dict compares no shapes, so "
    "the first step fails or moves the wrong weights."
)
RESIZED_FIX = (
    "Begin a new optimizer from these weights (without optimizer.pt and scheduler.pt, with a "
    "warm-up), and resize the vocabulary before training next time: load_state_dict takes these "
    "moments, and the first step fails or writes beyond them."
)
LOST_FIX = (
    "Copy the whole directory of the checkpoint, or resume with a warm-up as for a new optimizer."
)

OPTIMIZER = Check(
    code="CKP014",
    slug="optimizer-fits",
    title="The optimizer's state is that of these weights",
    why="load_state_dict of torch's optimizers compares the number of parameters and no shapes: "
    "the state of another model is loaded, and the first resumed step fails or moves the wrong "
    "weights.",
    passes=("each entry has the shape of a weight of the same files, and lies in a group",),
    notes=("less than half of the entries have shapes of no weight, as parameters of a loss do",),
    warns=(
        "half of the entries or more have shapes of no weight",
        "the state has entries for parameters that are in no group",
        "the scheduler and trainer_state.json are here, and no optimizer's state",
    ),
    fails=("entries have another number of rows than their weights, which were resized",),
    fix=FIT_FIX,
    limits="that entries of one shape belong to the right weights.",
    owner=Owner.JOB,
    judge=optimizer_fits,
    required="checkpoint",
    sources=("torch-optimizer-state",),
    after=("CKP001",),
)

CHECKS = (OPTIMIZER,)
