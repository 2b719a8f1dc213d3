"""Stage 6: the samples of the steps after the resume."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checks.rehearsal.resume_remedies import LOAD_POSITION, OF_EACH_RANK, POSITION, STREAM
from doctor.checks.rehearsal.resumed_state import resumed
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_resume import Resumed, SampleOrder
from doctor.judge.check import Check, Owner, Verdict, note, ok, skip, warn


def data(rehearsal: Rehearsal) -> Verdict:
    found = resumed(rehearsal)
    if isinstance(found, Verdict):
        return found
    if found.from_start:
        return skip("nothing was resumed: see RHS009")
    return _data(found)


def _data(found: Resumed) -> Verdict:
    order = found.order
    if found.same_batches:
        return warn(
            f"{found.same_batches} ranks, whose first batches differ at the start, do not all "
            "begin with different ones after the resume: they train on the same samples",
            fix=OF_EACH_RANK,
        )
    if found.first_batch and (order is None or order.untold):
        return _first_batch(found)
    if order is None:
        return skip("no loader with a dataset that is read by index was observed")
    if order.untold:
        return skip(f"not compared: {shown(order.untold, 200)}")
    return _ordered(found, order)


def _ordered(found: Resumed, order: SampleOrder) -> Verdict:
    """Of a loader whose dataset is read by index."""
    after = f"the {order.steps} steps after step {found.saved_step}"
    if order.same:
        return ok(f"{after} take the samples that they take without the stop")
    if not order.again and not order.left_out:
        return note(f"{after} take the same samples in another order")
    if order.skipped and order.again:
        return warn(
            f"the resume skips {found.saved_step} batches, as many as steps were taken, and each "
            f"step takes {order.skipped}: of {order.samples:,} samples until then {order.again:,} "
            f"are seen more often than without the stop and {order.left_out:,} less often",
            fix="Skip the batches that are done: the steps times the batches of a step "
            "(gradient_accumulation_steps), modulo those of an epoch.",
        )
    if order.anew and order.again and order.left_out:
        return note(
            f"{after} begin with the samples of the first steps again: of {order.samples:,} until "
            f"then {order.again:,} are seen more often than without the stop and "
            f"{order.left_out:,} less often",
            fix=POSITION,
        )
    return note(
        f"{after} take other samples than without the stop: of {order.samples:,} until then "
        f"{order.again:,} are seen more often and {order.left_out:,} less often",
        fix=f"Nothing, if that is acceptable. Else: {POSITION}",
    )


def _first_batch(found: Resumed) -> Verdict:
    """Of a stream, or of batches drawn without a loader, that begin anew."""
    called = "the model is called with the batch of the first step again"
    other = f"without the stop, step {found.saved_step + 1} has another one"
    if found.position:
        return warn(
            f"{called}, although the checkpoint has {shown(found.position)!r}: {other}",
            fix=LOAD_POSITION,
        )
    return note(
        f"{called}: {other}; the data, or the random numbers that draw them, begin anew",
        fix=STREAM,
    )


DATA = Check(
    code="RHS019",
    slug="resume-samples",
    title="The resume goes on with the samples that were to come",
    why="A resume that starts its epoch anew trains on the first samples twice and, if it always "
    "stops in the same part of the epoch, never on the last ones.",
    passes=("each step after the resume takes the samples that it takes without the stop",),
    notes=(
        "samples are seen more or less often than without the stop, which are counted",
        "the resume begins with the samples of the first steps again, as many libraries do, or its "
        "first batch is that of the first step",
    ),
    warns=(
        "ranks that begin with different batches begin with the same one after the resume",
        "as many batches are skipped as steps were taken, and each step takes several",
        "the first batch is that of the first step, although the checkpoints have a position",
    ),
    fix="Nothing, if that is acceptable: a correct resume may take another order.",
    owner=Owner.JOB,
    judge=data,
    limits="that crops and masks drawn at random within a sample go on. Of streams, and of loops "
    "without a DataLoader of torch, the first batch alone is compared.",
)

CHECKS = (DATA,)
