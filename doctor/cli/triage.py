"""One triage: logs to facts, findings and a report."""

from __future__ import annotations

import glob
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from doctor import catalog
from doctor._util.errors import UserError
from doctor._util.file_kinds import refuse_others
from doctor._util.secrets import hide_secrets
from doctor._util.units import visible
from doctor.checks.gpu.device import FREE
from doctor.checks.log.classes import BY_SLUG
from doctor.checks.log.patterns import line_patterns
from doctor.checks.log.runs import runs_of
from doctor.checks.log.story import story_of
from doctor.cli.examination import Record, working_directory
from doctor.cli.facts_file import read_facts
from doctor.cli.findings import findings_of
from doctor.cli.judging import judged
from doctor.cli.options import ConfigFlags
from doctor.cli.read import facts_in_logs
from doctor.cli.second_look import MOST_AGAIN, look_again
from doctor.errors.fitted import MEMORY
from doctor.facts.facts import Facts, without_machine
from doctor.facts.log import Log, LogEvent
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Finding, Status
from doctor.judge.engine import examine
from doctor.log.flight_recorder import read_dumps, split_dumps
from doctor.log.follow import follow
from doctor.log.opening import STDIN, files_of
from doctor.log.read import read_logs, unchanged
from doctor.report import terminal
from doctor.report.line import WORDS
from doctor.report.report import FailOn, Report

LOG_CHECKS = catalog.of_families("LOG")
ORDER = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.NOTE, Status.PASS, Status.SKIP)
"""The first cause first, then what else is wrong."""


def triage(
    paths: Sequence[str],
    flags: Mapping[str, object],
    config: ConfigFlags,
    *,
    facts_file: Path | None = None,
    fail_on: FailOn = "fail",
    following: bool = False,
) -> Report:
    """Read the logs and judge them. Raises UserError."""
    began = time.monotonic()
    record = Record()
    saved = read_facts(facts_file) if facts_file else None
    for path in paths:
        refuse_others(path, "log", ("lint", "scan"))
    if following:
        if STDIN in paths:
            raise UserError("--follow is for files; a pipe is read until the job ends without it")
        for path in paths:
            if not (glob.has_magic(path) or Path(path).exists()):
                waits = f"{visible(path)} does not exist yet: waiting for it, Ctrl-C ends this"
                terminal.write(waits, sys.stderr)
        log = follow(paths, line_patterns(), Announcer(saved).announce)
        facts = facts_of(saved, log, time.monotonic() - began)
    else:
        dumps, files = split_dumps(file for path in paths for file in files_of(path))
        again = look_again if len(files) <= MOST_AGAIN else unchanged
        log = read_logs(files, line_patterns(), look_again=again)
        facts = facts_of(saved or facts_in_logs(files), log, time.monotonic() - began)
        facts = facts.with_(flight_recorder=read_dumps(dumps) if dumps else None)
    return judge(facts.with_(examination=record.close()), flags, config, fail_on)


def judge(
    facts: Facts,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
    *,
    search: bool = True,
) -> Report:
    """The report on logs that were read.

    Raises UserError for flags and the job file.
    """
    report = judged(
        facts, examine(LOG_CHECKS, facts), LOG_CHECKS, flags, config, fail_on, search=search
    )
    machine = () if report.selected else _machine_problems(facts)
    findings, notes = report.findings, report.notes
    if not report.selected:
        findings = tuple(finding for finding in findings if not _is_absent(finding))
        absent = len(report.findings) - len(findings)
        notes = (*notes, f"{absent} other kinds of failures are not in the log")
    return replace(report, findings=ordered((*findings, *machine), facts.log), notes=notes)


def _is_absent(finding: Finding) -> bool:
    """Whether no line of a class is in the log: nothing that a report says of a dead job."""
    return finding.status is Status.PASS and finding.check.slug in BY_SLUG


class Announcer:
    """Prints a warning or failure on stderr when a log that grows first shows it."""

    def __init__(self, saved: Facts | None) -> None:
        self._saved = saved
        self._announced: set[tuple[str, Status]] = set()

    def announce(self, log: Log) -> None:
        findings = ordered(examine(LOG_CHECKS, facts_of(self._saved, log, 0.0)), log)
        for finding in findings:
            key = (finding.check.code, finding.status)
            if finding.is_problem and key not in self._announced:
                self._announced.add(key)
                line = f"{WORDS[finding.status]} {finding.check.code} {finding.check.slug}  "
                text = line + visible(hide_secrets(finding.verdict.summary))
                terminal.write(f"{time.strftime('%H:%M:%S')} {text}", sys.stderr)
        sys.stderr.flush()


def ordered(findings: tuple[Finding, ...], log: object) -> tuple[Finding, ...]:
    """The first cause first, then failures, warnings and unknowns."""
    stories = map(story_of, runs_of(log)) if isinstance(log, Log) else ()
    firsts = [story.first for story in stories if story.first]
    names = [first.name for first in firsts]

    def order(finding: Finding) -> tuple[int, int]:
        slug = finding.check.slug
        place = names.index(slug) if slug in names else len(names)
        before = any(_is_before(finding, first) for first in firsts)
        return ORDER.index(finding.status), -1 if before else place

    return tuple(sorted(findings, key=order))


def _is_before(finding: Finding, first: LogEvent) -> bool:
    """Whether a curve went wrong earlier in the file than the first event."""
    place = next(iter(finding.places), None)
    return bool(place and place.path == first.path and 0 < place.line < first.line)


def _machine_problems(facts: Facts) -> tuple[Finding, ...]:
    """What is wrong with the machine, by a report that was pasted into the logs."""
    if not facts.is_pasted:
        return ()
    found = tuple(finding for finding in findings_of(facts) if finding.is_problem)
    return tuple(each for each in found if each.check.code != FREE.code or not _may_hold(facts.log))


def _may_hold(log: object) -> bool:
    """Whether the run of the log may itself hold the memory that its nvidia-smi shows."""
    return (
        isinstance(log, Log)
        and bool(log.curves)
        and not any(event.name == MEMORY for event in log.events)
    )


def facts_of(saved: Facts | None, log: Log, seconds: float) -> Facts:
    """The facts of the machine where they are given, with the log."""
    if saved is not None:
        return saved.with_(log=log, seconds=seconds)
    return without_machine(
        "doctor triage reads logs only",
        origin="recorded by doctor triage",
        job=Job(device="cpu", working_dir=working_directory()),
        options=RunOptions(smoke=False),
        log=log,
        seconds=seconds,
    )
