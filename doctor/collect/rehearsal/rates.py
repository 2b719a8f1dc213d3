"""The learning rates after a resume, beside those of the run that was not stopped."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.collect.rehearsal.observation import Observed
from doctor.collect.rehearsal.records import Snapshot
from doctor.facts.rehearsal_resume import Lost
from doctor.facts.rehearsal_runs import RehearsedRank

LEAST = 3
"""Steps that tell a schedule that counts anew. Our own number."""


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
        return None if saved.schedules else _started_over(whole.rates, after.rates, saved.s)
    most = max(apart, key=lambda number: _distance(*pairs[number]))
    fresh, names = _close(whole.rates[0], after.rates[0]), tuple(saved.schedules)
    return _lost(pairs[most], saved.s + most + 1, fresh=fresh, names=names)


def _started_over(
    whole: Sequence[Sequence[float]], after: Sequence[Sequence[float]], saved: int
) -> Lost | None:
    """A schedule of the program's own that counts anew: from the second step on it sets the rates
    of the first steps of all. The first one has the rate of the optimizer's groups still."""
    steps = list(zip(whole[1:], whole[saved + 1 :], after[1:], strict=False))
    again = all(_close(first, now) for first, _, now in steps)
    varies = any(not _close(steps[0][0], first) for first, _, _ in steps)
    apart = [number for number, (_, due, now) in enumerate(steps) if not _close(due, now)]
    if len(steps) < LEAST or not again or not varies or not apart:
        return None
    most = max(apart, key=lambda number: _distance(*steps[number][1:]))
    return _lost(steps[most][1:], saved + most + 2, fresh=True)


def _lost(
    pair: Sequence[Sequence[float]], step: int, *, fresh: bool, names: tuple[str, ...] = ()
) -> Lost:
    before, now = pair
    return Lost(
        kind="rate", names=names, count=0, of=len(before), fresh=fresh, before=f"{max(before):g}",
        after=f"{max(now):g}", step=step,
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
