"""The samples that a resume takes, beside those of the run that was not stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from doctor.collect.rehearsal.observation import Observed
from doctor.collect.rehearsal.records import Taken
from doctor.facts.rehearsal_resume import SampleOrder

COMPARED = 3
"""Steps that show whether an epoch begins anew."""
LEAST = 4
"""Samples that tell a place in an epoch. Our own number."""
Steps = dict[int, list[int | str]]
"""Samples by the step that was taken with them."""


def compare(
    first: Sequence[Observed],
    stopped: Sequence[Observed],
    continued: Sequence[Observed],
    saved_step: int,
) -> SampleOrder | None:
    """None where no samples were observed. `first` is the uninterrupted run."""
    runs = [[_steps(each) for each in run] for run in (first, stopped, continued)]
    if not any(steps for run in runs for steps in run):
        return None
    if len(set(map(len, runs))) != 1 or not all(steps for run in runs for steps in run):
        return SampleOrder(untold="the samples of some ranks and runs were not observed")
    planned, before, after = runs
    if [_until(each, saved_step) for each in planned] != [
        _until(each, saved_step) for each in before
    ]:
        return SampleOrder(untold="two equal runs take their samples in different orders")
    moved = [{step + saved_step: taken for step, taken in steps.items()} for steps in after]
    end = min(max(steps) for steps in (*planned, *moved))
    if end <= saved_step:
        return SampleOrder(untold="no step follows the resume")
    if any(len(_until(steps, end)) < end for steps in planned):
        return SampleOrder(untold="the samples of some steps were not observed")
    expected = _count(_until(steps, end) for steps in planned)
    taken = _count(_until(steps, saved_step) for steps in before)
    taken += _count(_until(steps, end) for steps in moved)
    return SampleOrder(
        steps=end - saved_step,
        samples=expected.total(),
        same=all(
            {**_until(a, saved_step), **_until(b, end)} == _until(c, end)
            for a, b, c in zip(before, moved, planned, strict=True)
        ),
        again=(taken - expected).total(),
        left_out=(expected - taken).total(),
        skipped=_skipped(first, planned, after, saved_step),
        anew=all(
            _from(after, saved_step + 1) == _from(steps, 1)[: len(_from(after, saved_step + 1))]
            for after, steps in zip(moved, planned, strict=True)
        ),
    )


def _skipped(
    first: Sequence[Observed], planned: list[Steps], after: list[Steps], saved_step: int
) -> int:
    """Batches of a step, if the resume skips as many batches as steps were taken, and each step
    takes several; 0 otherwise."""
    passes = {each.passes for each in first[0].steps if each.s <= saved_step}
    each = passes.pop() if len(passes) == 1 else 0
    if each < 2:
        return 0
    for whole, now in zip(planned, after, strict=True):
        done = sum(len(taken) for taken in _until(whole, saved_step).values())
        begin = [sample for step in sorted(whole) for sample in whole[step]][done // each :]
        head = now.get(1, [])
        if done % each or len(head) < LEAST or begin[: len(head)] != head:
            return 0
    return each


def _steps(observed: Observed) -> Steps:
    return {each.s: each.samples for each in observed.of(Taken)}


def _until(steps: Steps, end: int) -> Steps:
    return {step: taken for step, taken in steps.items() if step <= end}


def _from(steps: Steps, first: int) -> list[list[int | str]]:
    """The samples of some steps, from this one on."""
    return [steps[step] for step in range(first, first + COMPARED) if step in steps]


def _count(runs: Iterable[Steps]) -> Counter[int | str]:
    return Counter(sample for steps in runs for taken in steps.values() for sample in taken)
