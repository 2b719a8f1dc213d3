"""The command `doctor lint`: what is asked for, to a lint, to stdout and files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor._util.errors import UserError
from doctor.cli.lint.run import Lint, LintOptions, run_lint
from doctor.job.file.lint import LintTable
from doctor.report import lint as page
from doctor.report import terminal
from doctor.report.line import Detail

if TYPE_CHECKING:
    from doctor.cli.lint.fix import Fixed
    from doctor.facts.facts import Facts
    from doctor.job.file.tables import Ignore, Severity
    from doctor.report.delivery import OutputOptions

TEXTS = ("console", "plain")
EDITED = {"json", "jsonl", "sarif"}
"""Formats that hold the edits of fixes, which take time to compute."""
STDOUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRequest:
    """The command line of a lint."""

    paths: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    fix: bool = False
    diff: bool = False
    unsafe_fixes: bool = False
    no_backup: bool = False
    cache: str = ""
    habits: bool = False
    stdin_filename: str = ""
    fail_on: Any = "fail"
    format: str = "console"
    output: tuple[str, ...] = ()
    annotate: bool = False
    redact: bool | None = None
    color: Any = "auto"
    verbose: bool = False
    quiet: bool = False
    config: Path | None = None
    no_config: bool = False
    no_ignores: bool = False
    inject: tuple[str, ...] = ()
    facts: Path | None = None

    @property
    def detail(self) -> Detail:
        return "quiet" if self.quiet else "verbose" if self.verbose else "normal"

    @property
    def is_light(self) -> bool:
        """Whether the report is text without colour or wrapping, which needs few modules."""
        styled = self.color == "always" or sys.stdout.isatty() or os.environ.get("FORCE_COLOR")
        texts = self.format == "plain" or (self.format == "console" and not styled)
        return texts and not self.output and self.redact is None


def lint(request: LintRequest) -> int:
    """Lint, fix where asked, report; return the exit code. Raises UserError."""
    _check(request)
    output = None if request.is_light else _output_options(request)
    job = _job_file(request)
    saved: Facts | None = None
    if request.facts is not None:
        from doctor.cli.facts_file import read_facts

        saved = read_facts(request.facts)
    result = _result(request, job, saved)
    if request.diff:
        return _show_diff(result, request)
    fixed: Fixed | None = None
    if request.fix:
        from doctor.cli.lint.fix import fix_files

        fixed = fix_files(result, unsafe=request.unsafe_fixes, backup=not request.no_backup)
        result = _result(request, job, saved)
    if output is None:
        text = page.text(result, len(result.paths), request.detail, request.format)
        terminal.write(text, sys.stdout)
        code = result.exit_code
    else:
        code = _deliver(result, output, saved, job)
    if fixed is not None:
        stream = sys.stdout if request.format in TEXTS else sys.stderr
        for line in (fixed.summary, *fixed.refused):
            terminal.write(line, stream)
    return code


def _output_options(request: LintRequest) -> OutputOptions:
    """Raises UserError."""
    from doctor.report.delivery import output_options

    return output_options(
        request.format,
        request.output,
        request.color,
        annotate=request.annotate,
        keep_names=not request.redact,  # the paths of scripts are what editors and CI open
        verbose=request.verbose,
        quiet=request.quiet,
    )


def _result(request: LintRequest, job: _JobFile, saved: Facts | None) -> Lint:
    options = LintOptions(
        paths=request.paths,
        only=request.only,
        skip=request.skip,
        fail_on=request.fail_on,
        stdin_filename=request.stdin_filename,
        cache=request.cache,
        habits=request.habits,
        table=job.table,
    )
    result = run_lint(options, saved.script_machine if saved else None, job.notes)
    if not (request.inject or job.ignores or job.severity):
        return result
    from doctor.cli.judging import overridden

    findings = overridden(result.findings, job, request.inject, request.no_ignores)
    return replace(result, findings=findings)


def _deliver(result: Lint, output: OutputOptions, saved: Facts | None, job: _JobFile) -> int:
    """The report in the formats that all commands share."""
    from doctor.cli.lint.fix import with_edits
    from doctor.cli.lint.report import lint_report
    from doctor.report.delivery import deliver

    if EDITED & {output.format, *dict(output.outputs)}:
        result = replace(result, findings=with_edits(result))
    return deliver(lint_report(result, saved, job.path), output)


@dataclass(frozen=True, slots=True)
class _JobFile:
    """What a lint takes from a job file."""

    path: str = ""
    table: LintTable = field(default_factory=LintTable)
    notes: tuple[str, ...] = ()
    ignores: tuple[Ignore, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)


def _check(request: LintRequest) -> None:
    if request.fix and request.diff:
        raise UserError("--fix cannot be combined with --diff; --diff changes nothing")
    if request.fix and request.paths == (STDOUT,):
        raise UserError("--fix cannot be combined with -; use --diff")
    if request.unsafe_fixes and not (request.fix or request.diff):
        raise UserError("--unsafe-fixes requires --fix or --diff")
    if request.no_backup and not request.fix:
        raise UserError("--no-backup requires --fix")
    if request.verbose and request.quiet:
        raise UserError("--verbose cannot be combined with --quiet; omit one of them")
    if request.config and request.no_config:
        raise UserError("--config cannot be combined with --no-config")


def _job_file(request: LintRequest) -> _JobFile:
    """The job file; where there is none, nothing that reads it is imported."""
    here = Path(os.getcwd())  # noqa: PTH109 - as inputs.py
    named = request.config or os.environ.get("DOCTOR_CONFIG")
    if request.no_config or not (named or _may_exist(here)):
        return _JobFile()
    from doctor.job.file.config import load

    file = load(request.config, os.environ, str(here))
    return _JobFile(file.path, file.lint, file.notes, file.ignores, file.severity or {})


def _may_exist(here: Path) -> bool:
    """Whether this directory or one above, up to the repository's root, has a job file."""
    for directory in (here, *here.parents):
        if any((directory / name).exists() for name in ("doctor.toml", "pyproject.toml")):
            return True
        if (directory / ".git").exists():
            return False
    return False


def _show_diff(result: Lint, request: LintRequest) -> int:
    """The fixes as a diff; the exit code is 1 if there are any, that of the lint if it read
    nothing.
    """
    from doctor.cli.lint.fix import fix_text

    fixed = fix_text(result, unsafe=request.unsafe_fixes)
    for text in fixed.diffs:
        terminal.write(text.rstrip("\n"), sys.stdout)
    for line in (fixed.summary, *fixed.refused):
        terminal.write(line, sys.stderr)
    if not result.paths:
        terminal.write(page.text(result, 0, request.detail, "plain"), sys.stderr)
        return result.exit_code
    return 1 if fixed.diffs else 0
