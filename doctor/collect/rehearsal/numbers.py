"""Numbers and sizes that the loss is computed with after a resume, beside those without a stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from doctor.collect.rehearsal.observation import Observed
from doctor.facts.rehearsal_resume import Lost

LEAST = 3
"""Steps after the resume at which one is that of a first step. Our own number."""
LEAST_VALUES = 4
"""Values that tell a number that follows the steps from one that follows the data, if each is at
least, or at most, the one before. Our own number."""


def numbers_anew(
    first: Sequence[Observed],
    stopped: Sequence[Observed],
    continued: Sequence[Observed],
    saved_step: int,
) -> Lost | None:
    """One that rises or falls with the steps, and has the values of the first steps again.

    It does so in the two runs alike, as what is drawn from the data does not, and is there at
    every step.
    """
    if not (first and stopped and continued):
        return None
    whole, before, after = map(_series, (first[0], stopped[0], continued[0]))
    found = []
    for name, due in whole.items():
        again = after.get(name, [])
        if _begins_anew(due, before.get(name, []), again, saved_step):
            size = "sizes" in name
            found.append((size, due[saved_step], again[0]))
    if not found:
        return None
    size, due_then, now = min(found)
    return Lost(
        kind="size" if size else "number", count=len(found), fresh=True, before=f"{due_then:g}",
        after=f"{now:g}", step=saved_step + 1,
    )  # fmt: skip


def _begins_anew(
    due: Sequence[float], before: Sequence[float], again: Sequence[float], saved_step: int
) -> bool:
    follow = list(zip(due, again, due[saved_step:], strict=False))
    if len(follow) < LEAST or len(before) < saved_step or due[:saved_step] != before[:saved_step]:
        return False
    rises = all(a <= b for a, b in pairwise(due))
    falls = all(a >= b for a, b in pairwise(due))
    if not (rises or falls) or len(set(due)) < LEAST_VALUES:
        return False
    differ = sum(not math.isclose(now, then) for _, now, then in follow)
    same = all(math.isclose(fresh, now) for fresh, now, _ in follow)
    return same and differ >= LEAST and len({fresh for fresh, _, _ in follow}) > 1


def _series(observed: Observed) -> dict[str, list[float]]:
    """The values of those that every step has, from the first to the last."""
    now: dict[str, float] = {}
    found: dict[str, list[float]] = {}
    for number, step in enumerate(observed.steps):
        if step.s != number + 1:
            break
        for name, value in step.numbers.items():
            if value is None:
                now.pop(name, None)
            else:
                now[name] = value
        for name, value in now.items():
            if len(found.setdefault(name, [])) == number:
                found[name].append(value)
    length = max(map(len, found.values()), default=0)
    return {name: values for name, values in found.items() if len(values) == length}
