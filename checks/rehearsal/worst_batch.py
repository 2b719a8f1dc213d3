"""The batches that the first steps seldom meet: the longest, the last, the shortest."""

from __future__ import annotations

from doctor._util.units import gib, shown
from doctor.facts.rehearsal import Batches, Rehearsal, TriedBatch
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn

NEARLY_ALL = 0.95
"""Share of the GPU's memory that leaves too little for its fragments. Our own number."""


def worst(rehearsal: Rehearsal) -> Verdict:
    if not rehearsal.trained:
        return skip(
            "the batches of a command are its own; doctor run --model --rehearse tries them"
        )
    found = rehearsal.batches
    if found is None:
        return skip("the factory has no loader, or the training did not end")
    if found.untold:
        return unknown(shown(found.untold, 300))
    failed = next((each for each in found.tried if each.error), None)
    if failed is not None:
        return fail(f"{_named(failed)} raised {shown(failed.error, 300)}")
    if verdict := _without_result(rehearsal, found):
        return verdict
    full = [each for each in found.tried if _share(each) > NEARLY_ALL]
    if full:
        each = max(full, key=_share)
        return warn(
            f"{_named(each)} takes {gib(each.peak or 0)} of {gib(each.total or 0)} of GPU memory; "
            f"at most {NEARLY_ALL:.0%} required"
        )
    listed = ", ".join(map(_with_peak, found.tried))
    if found.read < found.of:
        return unknown(f"{listed}; only {found.read:,} of {found.of:,} samples were read for it")
    return ok(f"{listed}{_lengths(found)}")


def _without_result(rehearsal: Rehearsal, found: Batches) -> Verdict | None:
    """Of a process that died in a batch, batches that were not all tried, or a GPU not used."""
    run = rehearsal.run("run")
    code = run.code if run else None
    done = {each.name for each in found.tried}
    missing = next((name for name in found.planned if name not in done), None)
    if missing is not None:
        where = f"the {shown(missing, 20)} batch"
        if code:
            return fail(f"the process ended with exit code {code} in {where}")
        return unknown(f"{where} was begun and has no result")
    if run is not None and code != 0:
        return unknown(f"exit code {code}; {len(done)} batches were tried before")
    if not found.tried:
        return unknown(f"no batch was tried; {found.read:,} of {found.of:,} samples were read")
    if found.device == "cuda" and any(each.peak is None for each in found.tried):
        return unknown("the batches were tried without the GPU that the job trains on")
    return None


def _named(batch: TriedBatch) -> str:
    return f"the {shown(batch.name, 20)} batch ({batch.samples} samples)"


def _with_peak(batch: TriedBatch) -> str:
    peak = f", {gib(batch.peak)} of GPU memory" if batch.peak is not None else ""
    return f"{_named(batch)}{peak}"


def _share(batch: TriedBatch) -> float:
    return (batch.peak or 0) / (batch.total or 1)


def _lengths(found: Batches) -> str:
    if found.longest <= 1:
        return ""
    return f"; samples have lengths of {found.shortest:,} to {found.longest:,}"


WORST = Check(
    code="RHS016",
    slug="worst-batch",
    title="The longest, the last and the shortest batch run and fit into memory",
    why="The longest samples need the most memory, and the last batch of an epoch may hold a "
    "single sample, at which BatchNorm raises: both come hours after the start.",
    passes=("each runs forward and backward, with at most 95 % of the GPU's memory",),
    warns=("one takes more than 95 % of the GPU's memory",),
    fails=("one raises an error, such as out of memory", "the process dies in one"),
    fix="Shorten or drop the longest samples, lower the batch size, or use activation "
    "checkpointing; for a last batch that is too small, drop_last=True.",
    owner=Owner.JOB,
    judge=worst,
    limits="that these batches fit beside the memory that fragments in a long run, or that a "
    "collate_fn that draws at random gives the same.",
)

CHECKS = (WORST,)
