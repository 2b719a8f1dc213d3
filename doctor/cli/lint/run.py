"""One lint: what is asked for, to the files, their hits and the findings."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from doctor._util.errors import UserError
from doctor.checks.script.names import codes_of, select
from doctor.cli.lint.findings import findings_of, not_decided, without_place
from doctor.cli.lint.linter import Linter, hits_of
from doctor.facts.script import Launch
from doctor.facts.script_machine import ScriptMachine
from doctor.job.file.lint import LintTable
from doctor.judge.check import Check, Finding, Status
from doctor.script.discover import Files, discover
from doctor.script.launch import named_launchers, read_launches, with_started
from doctor.script.text import LIMIT

if TYPE_CHECKING:
    from doctor.cli.lint.cache import LintCache
    from doctor.report.report import FailOn

STDIN = "-"


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
        """1 if something is at or above --fail-on, 3 if no script was read or no selected rule
        could be decided.
        """
        gates = {"fail": (Status.FAIL,), "warn": (Status.FAIL, Status.WARN), "never": ()}
        gate = gates[self.options.fail_on]
        counted = [finding.status for finding in self.findings if not finding.ignored]
        if any(status in gate for status in counted):
            return 1
        decided = any(status is not Status.UNKNOWN for status in counted)
        return 0 if decided or self.options.fail_on == "never" else 3


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
    hits = (
        linter.file(files.scripts[0], data)
        if data is not None
        else list(hits_of(linter, (*files.scripts, *files.shells), options.processes))
    )
    read = files.scripts or named_launchers(options.paths, files) or (files.shells if hits else ())
    findings = tuple(findings_of(hits, checks) if read else not_decided(checks))
    if linter.cache is not None:
        linter.cache.trim()
    if not (options.habits or options.only):
        findings = tuple(map(without_place, findings))
    seconds = time.monotonic() - began
    notes = (*notes, *files.notes)
    return Lint(findings, options, linter, read, data, notes, seconds, started)


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
