"""Where the second run is stopped, and what the third, which continues, restored of it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from doctor.collect.rehearsal import (
    events,
    observation,
    records,
    resume,
    resume_request,
    sample_order,
)
from doctor.collect.rehearsal.observation import Observed
from doctor.collect.rehearsal.places import Workplace
from doctor.facts.rehearsal_resume import Resumed
from doctor.facts.rehearsal_runs import OnDisk, RehearsedRun

MOST_HASHED = 10
"""Saves at which all ranks record their state."""
AFTER = 4
"""Steps that a resume has at least, if there is a choice. Our own number."""
LEAST_SERIES = 3
"""Checkpoints of which one is called the oldest: the second of two may have been under way."""
BEST = re.compile(r"(^|[/._-])best([/._-]|$)", re.IGNORECASE)


def save_steps(first: RehearsedRun) -> tuple[int, ...]:
    """The steps of the first run's saves."""
    return tuple(sorted({each.step for each in first.saved if each.step}))[:MOST_HASHED]


def saves_before_end(first: RehearsedRun) -> list[int]:
    """The steps of saves that further steps followed: a run that failed later can be stopped and
    continued all the same."""
    return [step for step in save_steps(first) if step < first.steps]


def stop_step(first: RehearsedRun) -> int:
    """The step in whose middle the second run is stopped: after the save in the middle, so that a
    resume has older ones to choose from and what begins later has begun, with a whole step between
    them if there is one; in the middle where only the end is saved. 0: too few steps.

    A later save whose number has more digits comes first where the name has it: names sorted as
    texts show then.
    """
    steps = first.steps
    if saves := saves_before_end(first):
        named = {e.step for e in first.saved if not e.path or e.step in _numbers(_name(e.path))}
        longer = [e for e in saves if len(str(e)) > len(str(saves[0])) and e in named]
        middle = [e for e in saves[: len(saves) // 2 + 1] if e + AFTER <= steps]
        after = next((each for each in longer if each + 2 < steps), max(middle, default=saves[0]))
        return min(after + 2, steps)
    return steps // 2 + 1 if steps > 1 else 0


def compare(
    workplace: Workplace, interrupted: RehearsedRun, request: str, begun: Path | None = None
) -> Resumed | None:
    """The state before the stop with that after the resume; `begun`: where the command was
    started, if not here."""
    directories = map(workplace.records, ("run", "stop", "resume"))
    first, stopped, continued = map(observation.read_processes, directories)
    output = workplace.output("stop")
    steps = [record.moment for each in continued for record in each.steps]
    began = min(steps, default=float("inf"))
    read = events.read_in_output(workplace.records("resume"), began)
    opened = resume_request.opened_checkpoint(
        [path for call, path in read if call == "open"], interrupted.checkpoints, output
    )
    asked = [(each.name, each.value) for rank in continued for each in rank.of(records.Asks)]
    request = request or resume_request.requesting_setting(asked, output, begun)
    found = resume.compare(
        first, stopped, continued, looked=bool(read), request=request, opened=opened
    )
    if found is None or found.from_start:
        return found
    taken, newest = sorted_as_text(interrupted.checkpoints, found)
    oldest = not taken
    if oldest:
        taken, newest = oldest_taken(interrupted.checkpoints, found)
    if not was_listed(read, output, taken):
        taken, newest = "", ""
    best, best_at = best_again(first, stopped, continued, found.saved_step)
    if not best and found.best_anew:  # its next evaluation writes it anew, as the whole run may do
        best = next((path for step, path in _bests(stopped) if step <= found.saved_step), "")
    return msgspec.structs.replace(
        found,
        order=sample_order.compare(first, stopped, continued, found.saved_step),
        taken=taken,
        passed_over=newest,
        oldest=oldest and bool(newest),
        beside_best=_beside_best(interrupted.checkpoints, found),
        best=best,
        best_at=best_at,
        kept_optimizer=any(each.optimizer for each in interrupted.checkpoints),
    )


def sorted_as_text(checkpoints: Sequence[OnDisk], found: Resumed) -> tuple[str, str]:
    """The checkpoint that was taken and the newest, where names that differ in their number alone
    were sorted as texts, in which 10 comes before 9; ("", "") otherwise."""
    if found.saved_step >= found.newest_step:
        return "", ""
    for paths in _series(checkpoints):
        last, newest = max(paths), max(paths, key=_numbers)
        opened = found.opened == last or found.opened.startswith(last + "/")
        same_steps = _numbers(last)[-1:] == [found.saved_step]
        if last != newest and (opened if found.opened else same_steps):
            return last, newest
    return "", ""


def oldest_taken(checkpoints: Sequence[OnDisk], found: Resumed) -> tuple[str, str]:
    """The first of several numbered checkpoints, which was opened, and the newest; ("", "") for
    another one, and where a name has a result by which one is chosen."""
    if found.saved_step >= found.newest_step:
        return "", ""
    for paths in _series(checkpoints):
        first, newest = min(paths, key=_numbers), max(paths, key=_numbers)
        opened = found.opened == first or found.opened.startswith(first + "/")
        if len(paths) >= LEAST_SERIES and opened and not events.NOT_THE_NEXT.search(first):
            return first, newest
    return "", ""


def _beside_best(checkpoints: Sequence[OnDisk], found: Resumed) -> str:
    if found.saved_step >= found.newest_step or not BEST.search(found.opened):
        return ""
    return next((e.path for e in checkpoints if e.optimizer and not BEST.search(e.path)), "")


def _series(checkpoints: Sequence[OnDisk]) -> list[list[str]]:
    """The whole ones whose names differ in their numbers alone."""
    found: dict[str, list[str]] = {}
    for each in checkpoints:
        if each.weights and not each.torn and not each.unread:
            found.setdefault(re.sub(r"\d+", "#", each.path), []).append(each.path)
    return list(found.values())


def was_listed(read: Sequence[tuple[str, str]], output: Path, taken: str) -> bool:
    """Whether a directory of {output} was listed, but for the checkpoint that was taken: names are
    not sorted where a file says which one is the latest."""
    listed = [os.path.relpath(path, output) for call, path in read if call != "open"]
    return any(place != taken and not place.startswith(taken + "/") for place in listed)


def _name(path: str) -> str:
    """Of a checkpoint: its file's and that of the directory that it lies in."""
    return "/".join(path.split("/")[-2:])


def _numbers(path: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d{1,18}", path)]


def best_again(
    first: Sequence[Observed],
    stopped: Sequence[Observed],
    continued: Sequence[Observed],
    saved_step: int,
) -> tuple[str, int]:
    """The best result so far that the first evaluation after the resume saved, and the step, where
    one was there before, and the run without a stop saved none then; ("", 0) otherwise."""
    before = {path: step for step, path in _bests(stopped) if step <= saved_step}
    planned = {step for step, _ in _bests(first)}
    evaluated = [e.step for each in continued[:1] for e in each.rank().evaluations if e.step]
    for step, path in _bests(continued):
        if step != min(evaluated, default=step):
            break
        if path in before and step + saved_step not in planned:
            return path, step + saved_step
    return "", 0


def _bests(processes: Sequence[Observed]) -> list[tuple[int, str]]:
    """Steps and names, without their directories, of what rank 0 saved as the best so far."""
    saves = [save for each in processes[:1] for save in each.saved()]
    names = [(save.step, save.path.rpartition("/")[2]) for save in saves]
    return [(step, name) for step, name in names if BEST.search(name)]
