"""Which files of a log are of one run: each run has a first cause of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from msgspec.structs import replace as with_fields

from doctor.checks.log.story import TEARDOWN, Same, role, story_of
from doctor.facts.log import Log, LogEvent
from doctor.judge.check import Status, Verdict
from doctor.judge.combine import worst
from doctor.log.tracebacks import bare_exception

MOST = 8
"""Runs of one triage that have a finding each, and sets of ranks that a file may complete. Our own
number."""
OF_NODE = re.compile(r"^[\w.-]{1,64}:")
"""How `--fleet` names a file that node 0 does not see."""
OF_ONE_RUN = re.compile(
    r"(?:rank|proc(?:ess)?|worker|task|node|host|gpu)s?[-_]?\d{1,9}|(?:attempt_\d{1,9})?/\d{1,9}(?=/std)|"
    r"std(?:out|err)|\.(?:out|err|log)$",
    re.IGNORECASE,
)
"""Parts of a path in which the files of one run differ."""
TRACED = frozenset(("code", "functions"))
"""Groups of an event that a traceback led to."""


@lru_cache(maxsize=16)
def _groups_of(same: Same) -> dict[str, int]:
    """Path -> a number that is the same for files which their names show to be of one run: they
    differ in the rank, the node or the stream alone, or are the ranks that another set lacks."""
    by_name: dict[str, list[str]] = {}
    ranks: dict[str, set[int]] = {}
    for file in same.log.files:
        name = OF_ONE_RUN.sub("#", OF_NODE.sub("", file.path))
        by_name.setdefault(name, []).append(file.path)
        if file.rank is not None:
            ranks.setdefault(name, set()).add(file.rank)
    numbers: dict[str, int] = {}
    complete: list[tuple[int, set[int]]] = []
    for number, (name, paths) in enumerate(by_name.items()):
        own, of = ranks.get(name, set()), number
        found = next((each for each in complete if own.isdisjoint(each[1])), None) if own else None
        if found:
            of = found[0]
            found[1].update(own)
        elif own and len(complete) < MOST:
            complete.append((number, own))
        numbers.update(dict.fromkeys(paths, of))
    return numbers


def of_one_run(log: Log, event: LogEvent, other: LogEvent) -> bool:
    """Whether they are of one file, or their files' names show that they are of one run."""
    groups = _groups_of(Same(log))
    return groups.get(event.path, -1) == groups.get(other.path, -1)


def runs_of(log: Log) -> tuple[Log, ...]:
    """The log as it is; or for each failure that nothing shows to be of another one's run, the log
    without the files of the others. Pure; computed once per log."""
    return _runs_of(Same(log)) if len(log.files) > 1 else (log,)


@lru_cache(maxsize=1)
def _runs_of(same: Same) -> tuple[Log, ...]:
    log, groups = same.log, _groups_of(same)
    leaders: dict[tuple[str, str], int] = {}
    others = set()
    for number, part in _parts(log, groups).items():
        first = story_of(part).first
        if first is None:
            continue
        failure = (first.name, re.sub(r"\d+", "0", first.text))
        if failure in leaders or not _begins(first, part):
            others.add(number)
        else:
            leaders[failure] = number
    if len(leaders) < 2:
        return (log,)
    first_one, *rest = list(leaders.values())[:MOST]
    others.update(list(leaders.values())[MOST:])
    without = [set(rest), *(others | {first_one, *rest} - {own} for own in rest)]
    return tuple(
        _of_files(log, {path for path, number in groups.items() if number not in left_out})
        for left_out in without
    )


def _begins(first: LogEvent, part: Log) -> bool:
    """Whether it is the failure of a program, and of none that another process takes down: a log
    of the kernel, or lost peers, may tell of any run."""
    of_program = part.curves or TRACED & first.groups.keys() or bare_exception(first.text)
    return bool(of_program) and role(first) != "consequence" and first.name not in TEARDOWN


def _parts(log: Log, groups: dict[str, int]) -> dict[int, Log]:
    """Of each group that has events, what the story of a failure is made of."""
    fields = ("files", "events", "harmless", "curves", "root_causes", "stated")
    parts: dict[int, dict[str, list[Any]]] = {}
    for event in log.events:
        parts.setdefault(groups.get(event.path, -1), {field: [] for field in fields})
    for field in fields:
        for each in getattr(log, field):
            if part := parts.get(groups.get(each.path, -1)):
                part[field].append(each)
    return {
        number: with_fields(log, **{field: tuple(each) for field, each in part.items()})
        for number, part in parts.items()
    }


def _of_files(log: Log, paths: set[str]) -> Log:
    curves = tuple(each for each in log.curves if each.path in paths)
    return with_fields(
        log,
        files=tuple(each for each in log.files if each.path in paths),
        events=tuple(each for each in log.events if each.path in paths),
        harmless=tuple(each for each in log.harmless if each.path in paths),
        curves=curves,
        last_step=max((step for each in curves for step in each.steps[-1:]), default=None),
        root_causes=tuple(each for each in log.root_causes if each.path in paths),
        ranks=tuple(each for each in log.ranks if each.path in paths),
        stated=tuple(each for each in log.stated if each.path in paths),
    )


def over_runs(log: Log, judge: Callable[[Log], Verdict]) -> Verdict:
    """The verdicts on the runs as one: each failure with its own places and fix."""
    runs = runs_of(log)
    if len(runs) == 1:
        return judge(log)
    verdicts = [_beside(judge(run), run, runs) for run in runs]
    reported = [each for each in verdicts if each.status not in (Status.PASS, Status.SKIP)]
    if len(reported) < 2:
        return (reported or sorted(verdicts, key=lambda each: each.status is Status.PASS))[0]
    reported.sort(key=lambda each: each.status is not Status.FAIL)
    return replace(
        worst(*reported, numbered=True),
        places=tuple(place for each in reported for place in each.places),
        causes=tuple(dict.fromkeys(id for each in reported for id in each.causes)),
        also=tuple(dict.fromkeys(line for each in reported for line in each.also)),
        retry=reported[0].retry if len({each.retry for each in reported}) == 1 else "",
    )


def _beside(verdict: Verdict, run: Log, runs: tuple[Log, ...]) -> Verdict:
    """A failure, with the places of those of the other runs."""
    if verdict.status is not Status.FAIL:
        return verdict
    others = (story_of(each).first for each in runs if each is not run)
    places = ", ".join(f"{each.path}:{each.line}" for each in others if each)
    return replace(
        verdict,
        summary=f"{verdict.summary}; not shown to be of one run with the failure at {places}",
    )
