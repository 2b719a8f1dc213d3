"""Where a continued run is in its data: its first batch, its epoch, the position that was saved."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.collect.rehearsal.observation import Observed
from doctor.collect.rehearsal.records import Epoch, Saved, Snapshot


def epoch_steps(stopped: Sequence[Observed], saved_step: int) -> int:
    """Steps of the epoch that had just ended at the save; 0 for one in the middle of an epoch."""
    ends = sorted({each.s for each in stopped[0].of(Epoch)}) if stopped else []
    if saved_step not in ends:
        return 0
    return saved_step - max((end for end in ends if end < saved_step), default=0)


def same_batches(first: Sequence[Observed], continued: Sequence[Observed]) -> int:
    """Ranks whose first batches differ in the first run, and not all in the continued one."""
    before, after = (
        [repr(batch) for each in ranks if (batch := each.batch())] for ranks in (first, continued)
    )
    if any(map(_passed_before, continued)):
        return 0
    differed = len(before) == len(set(before)) == len(after) > 1
    return len(after) if differed and len(set(after)) < len(after) else 0


def first_batch_again(
    first: Sequence[Observed], continued: Sequence[Observed], saved: Snapshot
) -> bool:
    """Whether the resume begins with the first batch of all, where another one was to come."""
    if not first or not continued or _passed_before(continued[0]):
        return False
    begun, due = first[0].batch(), first[0].batch(saved.s)
    return bool(begun) and bool(due) and continued[0].batch() == begun != due


def position(first: Sequence[Observed]) -> str:
    """The first entry of the saves that says how far the data are read, another in each of them."""
    saves = [each.positions for each in first[0].of(Saved) if each.s] if first else []
    keys = saves[0] if len(saves) > 1 else {}
    anew = (key for key in keys if len({each.get(key) for each in saves}) == len(saves))
    return str(next(anew, ""))[:100]


def _passed_before(observed: Observed) -> bool:
    """Whether its first batch came before its state was loaded, as one that shapes the model."""
    return {"start", "late"} <= {each.when for each in observed.snapshots}
