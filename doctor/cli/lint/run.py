"""One lint: what is asked for, to the files, their hits and the findings."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from doctor._util.errors import UserError
from doctor.checks.script.files import READABLE
from doctor.checks.script.lint import Hit
from doctor.checks.script.names import codes_of, select
from doctor.checks.script.rule import RANK, STATUSES, Rule, remedies
from doctor.checks.script.table import BY_CODE
from doctor.cli.lint.linter import Linted, Linter, linted
from doctor.facts.script import Launch
from doctor.facts.script_machine import ScriptMachine
from doctor.job.file.lint import LintTable
from doctor.judge.check import Check, Finding, Status, Verdict
from doctor.judge.place import Place
from doctor.report.lint import NO_SCRIPT, NOT_JUDGED
from doctor.script.discover import Files, discover
from doctor.script.launch import named_launchers, read_launches, with_started
from doctor.script.text import LIMIT

if TYPE_CHECKING:
    from doctor.cli.lint.cache import LintCache
    from doctor.report.report import FailOn

STDIN = "-"
MOST_NAMED = 10
"""More named files are those of a hook, which names whatever was changed. Our own number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """What is linted, by which rules."""

    paths: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    fail_on: FailOn = "fail"
    stdin_filename: str = ""
    cache: str = ""
    """The directory that keeps the hits of files."""
    habits: bool = False
    """Report habits that are absent with their places."""
    table: LintTable = field(default_factory=LintTable)
    """[lint] of the job file."""
    processes: int = 0
    """0: as many as are worth it."""


@dataclass(frozen=True, slots=True)
class Lint:
    """The result: findings by check, and what was read."""

    findings: tuple[Finding, ...]
    options: LintOptions
    linter: Linter
    paths: tuple[str, ...] = ()
    """The files, of which those that no rule reads are no scripts."""
    data: bytes | None = None
    """What stdin held."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    started: float = 0.0
    """Seconds since the epoch."""

    @property
    def exit_code(self) -> int:
        """1 if something is at or above --fail-on, 3 if no script could be read or no selected
        rule could be decided.
        """
        gates = {"fail": (Status.FAIL,), "warn": (Status.FAIL, Status.WARN), "never": ()}
        gate = gates[self.options.fail_on]
        counted = [finding.status for finding in self.findings if not finding.ignored]
        if any(status in gate for status in counted):
            return 1
        decided = any(status is not Status.UNKNOWN for status in counted) and not self._unread()
        return 0 if decided or self.options.fail_on == "never" else 3

    def _unread(self) -> bool:
        """Whether each file, and not only a cell of a notebook, could not be parsed."""
        unread = {
            place.path
            for finding in self.findings
            if finding.check.code == READABLE.code
            for place in finding.verdict.places
            if not place.cell
        }
        return bool(self.paths) and unread.issuperset(self.paths)


def run_lint(
    options: LintOptions, machine: ScriptMachine | None = None, notes: tuple[str, ...] = ()
) -> Lint:
    """Lint everything that the options name. Raises UserError."""
    started, began = time.time(), time.monotonic()
    checks = select(options.only, options.skip)
    files, data = _files(options)
    linter = Linter(
        machine or ScriptMachine(),
        _codes(checks, options.table.ignore),
        tuple((p, codes_of(c)) for p, c in options.table.per_file_ignores.items()),
        _launches(files),
        files,
        cache=_cache(options, machine, checks),
    )
    results = (
        [linter.file(files.scripts[0], data)]
        if data is not None
        else list(linted(linter, (*files.scripts, *files.shells), options.processes))
    )
    hits = [hit for each in results for hit in each.hits]
    read = files.scripts or named_launchers(options.paths, files) or (files.shells if hits else ())
    findings = tuple(findings_of(hits, checks) if read else not_decided(checks))
    if linter.cache is not None:
        linter.cache.trim()
    if not (options.habits or options.only):
        findings = tuple(map(without_place, findings))
    seconds = time.monotonic() - began
    named = options.paths if data is None else files.scripts
    notes = (*notes, *files.notes, *_unjudged(named, results))
    return Lint(findings, options, linter, read, data, notes, seconds, started)


def _unjudged(named: Sequence[str], results: Sequence[Linted]) -> Iterator[str]:
    """One note for each named file that no rule is for."""
    paths = {os.path.normpath(path) for path in named}
    for each in results if len(paths) <= MOST_NAMED else ():
        if each.path in paths and each.unjudged:
            yield f"{each.path}{NOT_JUDGED}{each.unjudged}"


def _cache(
    options: LintOptions, machine: ScriptMachine | None, checks: Sequence[Check]
) -> LintCache | None:
    if not options.cache:
        return None
    from doctor.cli.lint.cache import LintCache

    codes = [check.code for check in checks]
    return LintCache(options.cache, machine, codes, options.table)


def _files(options: LintOptions) -> tuple[Files, bytes | None]:
    if options.paths == (STDIN,):
        if sys.stdin.isatty():
            raise UserError("- is a terminal; pipe a file into the command")
        name = options.stdin_filename or "stdin.py"
        return Files((name,)), sys.stdin.buffer.read(LIMIT + 1)
    if STDIN in options.paths:
        raise UserError("- cannot be combined with other paths")
    return with_started(options.paths, discover(options.paths, options.table.exclude)), None


def _codes(checks: Sequence[Check], ignored: Sequence[str]) -> frozenset[str]:
    return frozenset(check.code for check in checks) - codes_of(ignored)


def _launches(files: Files) -> dict[str, list[tuple[str, Launch]]]:
    """Launch lines by the script's base name."""
    table: dict[str, list[tuple[str, Launch]]] = defaultdict(list)
    for path in files.launchers:
        try:
            data = files.read(path)
        except OSError:
            continue
        for script, launch in read_launches(path, data):
            table[script.rpartition("/")[2]].append((script, launch))
    return dict(table)


def findings_of(hits: Iterable[tuple[Hit, Place]], checks: Sequence[Check]) -> Iterator[Finding]:
    """One finding per check and kind: decided, undecided, suppressed."""
    decided: dict[str, list[tuple[Hit, Place]]] = defaultdict(list)
    undecided: dict[str, list[Place]] = defaultdict(list)
    ignored: dict[str, list[tuple[Hit, Place]]] = defaultdict(list)
    for hit, place in hits:
        if _is_habit(hit.code) and decided.get(hit.code):
            continue
        if hit.ignored:
            ignored[hit.code].append((hit, place))
        elif hit.undecided:
            undecided[hit.code].append(place)
        else:
            decided[hit.code].append((hit, place))
    for check in checks:
        yield from _of_check(check, decided[check.code], undecided[check.code])
        if accepted := ignored[check.code]:
            finding = _decided(check, accepted)
            yield replace(finding, ignored=accepted[0][0].ignored)


def without_place(finding: Finding) -> Finding:
    """A habit that is absent counts and is not shown: nearly every script lacks some."""
    if not _is_habit(finding.check.code) or finding.ignored:
        return finding
    return replace(finding, verdict=replace(finding.verdict, places=()))


def not_decided(checks: Iterable[Check]) -> Iterator[Finding]:
    """What a lint that read no script says: nothing is known, which is no pass."""
    return (Finding(check, Verdict(Status.UNKNOWN, NO_SCRIPT)) for check in checks)


def _is_habit(code: str) -> bool:
    rule: Rule | None = BY_CODE.get(code)
    return rule is not None and rule.once


def _of_check(
    check: Check, decided: list[tuple[Hit, Place]], undecided: list[Place]
) -> Iterator[Finding]:
    if decided:
        yield from _by_severity(check, decided)
    if undecided:
        summary = undecided[0].message
        yield Finding(check, Verdict(Status.UNKNOWN, summary, places=tuple(undecided)))
    if not decided and not undecided:
        yield Finding(check, Verdict(Status.PASS, "no file does it"))


def _by_severity(check: Check, decided: list[tuple[Hit, Place]]) -> Iterator[Finding]:
    """Failures, warnings and notes of one check, and each remedy, are findings of their own."""
    for severity in reversed(RANK):
        parts: dict[str, list[tuple[Hit, Place]]] = {}
        for pair in decided:
            if pair[0].severity == severity:
                parts.setdefault(pair[0].fix, []).append(pair)
        for part in parts.values():
            yield _decided(check, part)


def _decided(check: Check, hits: list[tuple[Hit, Place]]) -> Finding:
    more = f" (and {len(hits) - 1} more)" if len(hits) > 1 else ""
    places = tuple(place for _, place in hits)
    summary = f"{hits[0][0].message}{more}"
    fix = remedies((hit.fix for hit, _ in hits), check.fix)
    verdict = Verdict(STATUSES[hits[0][0].severity], summary, fix=fix, places=places)
    return Finding(check, verdict)
