"""The learning rates after a resume, beside those of the run that was not stopped."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.collect.rehearsal.observation import Observed
from doctor.collect.rehearsal.records import Snapshot
from doctor.facts.rehearsal_resume import Lost
from doctor.facts.rehearsal_runs import RehearsedRank


def rates_apart(
    first: Sequence[Observed], continued: Sequence[Observed], saved: Snapshot
) -> Lost | None:
    """The learning rates after the save, in both runs, at the step where they differ most.

    One that may follow the data (ReduceLROnPlateau, or no schedule of torch: by tokens seen, say)
    is compared at the first step alone: the order of the data may be another one.
    """
    whole = _of_rank_0(first)
    after = _of_rank_0(continued)
    if whole is None or after is None:
        return None
    follows = not saved.schedules or any("Plateau" in name for name in saved.schedules)
    end = saved.s + 1 if follows else None
    pairs = list(zip(whole.rates[saved.s : end], after.rates, strict=False))
    apart = [number for number, pair in enumerate(pairs) if not _close(*pair)]
    if not apart:
        return None
    most = max(apart, key=lambda number: _distance(*pairs[number]))
    before, now = pairs[most]
    fresh = _close(whole.rates[0], after.rates[0])
    texts = (f"{max(before):g}", f"{max(now):g}")
    return Lost(
        kind="rate", count=0, of=len(before), fresh=fresh, before=texts[0], after=texts[1],
        step=saved.s + most + 1,
    )  # fmt: skip


def _distance(left: Sequence[float], right: Sequence[float]) -> float:
    """The largest relative difference of two learning rates of a group."""
    pairs = zip(left, right, strict=False)
    return max((abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in pairs), default=0.0)


def _close(left: Sequence[float], right: Sequence[float]) -> bool:
    """Equal but for the last digits: schedules are computed in another order."""
    return len(left) == len(right) and all(
        abs(a - b) <= 1e-6 * max(abs(a), abs(b)) for a, b in zip(left, right, strict=True)
    )


def _of_rank_0(processes: Sequence[Observed]) -> RehearsedRank | None:
    return processes[0].rank() if processes else None
