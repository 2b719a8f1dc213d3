"""Reads what the processes of a run opened, wrote, removed and sent, as their audit events say."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec

from doctor._util.secrets import hide_secrets
from doctor.collect.rehearsal.observation import LONGEST, Observed, lines
from doctor.collect.rehearsal.records import Saved
from doctor.facts.rehearsal import Attempt
from doctor.facts.rehearsal_runs import RunName

EVENTS = "events.jsonl"
MOST_ATTEMPTS = 200
NOT_THE_NEXT = re.compile(
    r"(?<![a-z])(?:te?mp|part(?:ial)?|incomplete|candidate|best|top|loss|acc(?:uracy)?|val|metric"
    r"|score|ppl|bleu|wer|reward|return)(?![a-z])|\d\.\d",
    re.IGNORECASE,
)
"""In names of what is not kept for its place in time: unfinished saves, and those of a result."""


class _Event(msgspec.Struct):
    kind: Literal["write", "upload", "connect", "read", "rewrite", "emptied", "newest", "renamed"]
    what: str
    path: str = ""
    exists: bool = False
    moment: int = 0
    pid: int = 0
    place: str = ""


_decode_event = msgspec.json.Decoder(_Event).decode


def _events(directory: Path) -> Iterator[_Event]:
    for line in lines(directory / EVENTS):
        try:
            yield _decode_event(line)
        except msgspec.DecodeError:
            continue


def read_attempts(directory: Path, run: RunName, calls: str) -> list[Attempt]:
    """What the processes of a run tried to do outside; the same once."""
    found = [
        Attempt(run=run, kind=event.kind, what=event.what[:100],
                path=hide_secrets(event.path)[:LONGEST], exists=event.exists,
                place=hide_secrets(event.place)[:LONGEST])
        for event in _events(directory)
        if event.kind == "write" or event.kind == "upload" or event.kind == "connect"
    ]  # fmt: skip
    found += [
        Attempt(run=run, kind="cluster", what=hide_secrets(line.decode(errors="replace"))[:LONGEST])
        for line in lines(directory / calls)
    ]
    unique = {(each.kind, each.what, each.path): each for each in found}
    return list(unique.values())[:MOST_ATTEMPTS]


def read_in_output(directory: Path, before: float) -> list[tuple[str, str]]:
    """Call and path of what was opened or listed in {output} before this moment, and existed."""
    return [
        (event.what, event.path)
        for event in _events(directory)
        if event.kind == "read" and event.exists and event.moment < 1000 * before
    ]


def read_overwritten(directory: Path, output: Path) -> tuple[str, ...]:
    """Files with contents, below {output}, that were written over under their own name."""
    paths = (event.path for event in _events(directory) if event.kind == "rewrite")
    return tuple(dict.fromkeys(os.path.relpath(path, output)[:LONGEST] for path in paths))


def read_renamed(directory: Path) -> list[tuple[int, str]]:
    """Process and new name of each checkpoint's file in {output} that was written under another."""
    return [(event.pid, event.path) for event in _events(directory) if event.kind == "renamed"]


def read_emptied(directory: Path, processes: Sequence[Observed], output: Path) -> tuple[int, str]:
    """Step and path of the first checkpoint that was removed in the training, as the only one, and
    before the save of the same step or a later one; 0 and "" for none.

    What is removed before the first step, or when no step follows, is not counted.
    """
    steps = [step for each in processes for step in each.steps]
    saved = [save.s for each in processes for save in each.of(Saved)]
    for event in _events(directory):
        before = [step.s for step in steps if 1000 * step.moment <= event.moment]
        goes_on = any(1000 * step.moment > event.moment for step in steps)
        if event.kind == "emptied" and before and goes_on and max(saved, default=0) >= max(before):
            return max(before), os.path.relpath(event.path, output)[:LONGEST]
    return 0, ""


def never_kept(directory: Path, processes: Sequence[Observed]) -> bool:
    """Whether each save that a step and a later save follow is removed as the only one before that
    step, so that the steps go on without any; not where it is removed just before the next one."""
    removed = [event.moment for event in _events(directory) if event.kind == "emptied"]
    steps = [int(1000 * step.moment) for each in processes for step in each.steps]
    saves = {save.s: int(1000 * save.moment) for each in processes for save in each.of(Saved)}
    kept = []
    for save, following in pairwise(sorted(saves.values())):
        step = min((step for step in steps if save < step < following), default=math.inf)
        if step < following:
            kept.append(not any(save <= moment <= step for moment in removed))
    return bool(kept) and not any(kept)


def read_newest_removed(
    directory: Path, processes: Sequence[Observed], output: Path
) -> tuple[str, ...]:
    """Checkpoints below {output} that were removed in the training as the newest one, with older
    ones left, and are not there at the end either; without those of a temporary name or of a best
    result. (): a later save stayed, and a single one was removed."""
    steps = [1000 * step.moment for each in processes for step in each.steps]
    found = {}
    for event in _events(directory):
        place = os.path.relpath(event.path, output)
        in_training = event.kind == "newest" and event.moment >= min(steps, default=math.inf)
        if in_training and not os.path.lexists(event.path) and not NOT_THE_NEXT.search(place):
            found[place[:LONGEST]] = event.moment
    saves = [1000 * save.moment for each in processes for save in each.of(Saved)]
    later = any(moment > max(found.values(), default=0.0) for moment in saves)
    return () if later and len(found) < 2 else tuple(found)[:MOST_ATTEMPTS]
