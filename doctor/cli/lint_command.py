"""The command `doctor lint`: what is asked for, to a lint, to stdout and files."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor._util.errors import UserError
from doctor.cli.lint import Lint, LintOptions, run_lint
from doctor.job.file.lint import LintTable
from doctor.report import lint as page
from doctor.report import terminal
from doctor.report.formats.table import FORMATS, LINT_FORMATS
from doctor.report.line import Detail

if TYPE_CHECKING:
    from doctor.cli.lint_fix import Fixed
    from doctor.facts.facts import Facts

TEXTS = ("console", "concise", "plain")
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
    stdin_filename: str = ""
    fail_on: Any = "fail"
    format: str = "console"
    output: tuple[str, ...] = ()
    color: Any = "auto"
    verbose: bool = False
    quiet: bool = False
    config: Path | None = None
    no_config: bool = False
    facts: Path | None = None


def lint(request: LintRequest) -> int:
    """Lint, fix where asked, report; return the exit code. Raises UserError."""
    _check(request)
    outputs = _outputs(request)
    job = _job_file(request)
    options = LintOptions(
        paths=request.paths,
        only=request.only,
        skip=request.skip,
        fail_on=request.fail_on,
        stdin_filename=request.stdin_filename,
        table=job.table,
    )
    saved: Facts | None = None
    if request.facts is not None:
        from doctor.cli.facts_file import read_facts

        saved = read_facts(request.facts)
    machine = saved.script_machine if saved is not None else None
    result = run_lint(options, machine, job.notes)
    if request.diff:
        return _show_diff(result, request)
    fixed: Fixed | None = None
    if request.fix:
        from doctor.cli.lint_fix import fix_files

        fixed = fix_files(result, unsafe=request.unsafe_fixes, backup=not request.no_backup)
        result = run_lint(options, machine, job.notes)
    _print(_Output(result, request, job, saved), outputs)
    if fixed is not None:
        stream = sys.stdout if request.format in TEXTS else sys.stderr
        for line in (fixed.summary, *fixed.refused):
            terminal.write(line, stream)
    return result.exit_code


@dataclass(frozen=True, slots=True)
class _JobFile:
    """What a lint takes from a job file."""

    path: str = ""
    table: LintTable = field(default_factory=LintTable)
    notes: tuple[str, ...] = ()


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


def _outputs(request: LintRequest) -> tuple[tuple[str, Path], ...]:
    """Format and file of each --output. Raises UserError."""
    if not request.output:
        return ()
    from doctor.report.delivery import parse_outputs

    return parse_outputs(request.output, None, LINT_FORMATS)


def _job_file(request: LintRequest) -> _JobFile:
    """The job file; where there is none, nothing that reads it is imported."""
    here = Path(os.getcwd())  # noqa: PTH109 - as inputs.py
    named = request.config or os.environ.get("DOCTOR_CONFIG")
    if request.no_config or not (named or _may_exist(here)):
        return _JobFile()
    from doctor.job.file.config import load

    file = load(request.config, os.environ, str(here))
    return _JobFile(file.path, file.lint, file.notes)


def _may_exist(here: Path) -> bool:
    """Whether this directory or one above, up to the repository's root, has a job file."""
    for directory in (here, *here.parents):
        if any((directory / name).exists() for name in ("doctor.toml", "pyproject.toml")):
            return True
        if (directory / ".git").exists():
            return False
    return False


def _show_diff(result: Lint, request: LintRequest) -> int:
    """The fixes as a diff; the exit code is 1 if there are any."""
    from doctor.cli.lint_fix import fix_text

    fixed = fix_text(result, unsafe=request.unsafe_fixes)
    for text in fixed.diffs:
        terminal.write(text.rstrip("\n"), sys.stdout)
    for line in (fixed.summary, *fixed.refused):
        terminal.write(line, sys.stderr)
    return 1 if fixed.diffs else 0


@dataclass(frozen=True, slots=True)
class _Output:
    """Everything that a format may need."""

    result: Lint
    request: LintRequest
    job: _JobFile
    saved: Facts | None

    @property
    def detail(self) -> Detail:
        return "quiet" if self.request.quiet else "verbose" if self.request.verbose else "normal"

    def text(self, format: str) -> str:
        """The report in a format; the light ones need no other module of the reports."""
        if format in TEXTS:
            return page.text(self.result, len(self.result.paths), self.detail, format)
        from doctor.cli.lint_fix import with_edits
        from doctor.cli.lint_report import lint_report
        from doctor.report.redaction import redact

        report = redact(lint_report(self.result, self.saved, self.job.path), keep_names=True)
        if format == "sarif":
            report = replace(report, findings=with_edits(self.result))
        return FORMATS[format](report)


def _print(output: _Output, outputs: tuple[tuple[str, Path], ...]) -> None:
    request = output.request
    stdout = next((name for name, path in outputs if str(path) == STDOUT), request.format)
    for name, path in outputs:
        if str(path) != STDOUT:
            _write(path, output.text(name))
    if stdout == "console" and _is_terminal(request):
        console = terminal.stdout_console(request.color)
        page.show(output.result, len(output.result.paths), output.detail, console)
    else:
        terminal.write(output.text(stdout), sys.stdout)


def _is_terminal(request: LintRequest) -> bool:
    """Whether colour or wrapping may be needed; otherwise the same text comes without rich."""
    return bool(request.color == "always" or sys.stdout.isatty() or os.environ.get("FORCE_COLOR"))


def _write(path: Path, text: str) -> None:
    from doctor._util.atomic_write import atomic_write

    atomic_write(path, (text + "\n").encode("utf-8", "replace"), "--output")
