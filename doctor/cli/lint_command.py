"""The command `doctor lint`: flags to a lint, its report to stdout and files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from doctor._util.errors import UserError
from doctor.cli.facts_file import read_facts
from doctor.cli.lint import Lint, LintOptions, run_lint
from doctor.cli.lint_fix import Fixed, fix_files, fix_text
from doctor.cli.options import LintFlags, SelectionFlags
from doctor.job.file.config import JobFile, load
from doctor.report import delivery, lint as page, terminal
from doctor.report.redaction import redact


def lint(
    paths: tuple[str, ...], flags: LintFlags, selection: SelectionFlags, facts: Path | None
) -> int:
    """Lint, fix where asked, report; return the exit code. Raises UserError."""
    _check_flags(paths, flags)
    options = LintOptions(
        paths=paths,
        only=tuple(selection.only or ()),
        skip=tuple(selection.skip or ()),
        fail_on=flags.fail_on,
        stdin_filename=flags.stdin_filename,
    )
    file = _job_file(flags)
    options = LintOptions(
        **{name: getattr(options, name) for name in options.__slots__ if name != "table"},
        table=file.lint,
    )
    saved = read_facts(facts) if facts is not None else None
    result = run_lint(options, file, saved)
    if flags.diff:
        return _show_diff(result, flags)
    fixed: Fixed | None = None
    if flags.fix:
        fixed = fix_files(result, unsafe=flags.unsafe_fixes)
        result = run_lint(options, file, saved)
    return _deliver(result, flags, fixed)


def _check_flags(paths: tuple[str, ...], flags: LintFlags) -> None:
    if flags.fix and flags.diff:
        raise UserError("--fix cannot be combined with --diff; --diff changes nothing")
    if flags.fix and paths == ("-",):
        raise UserError("--fix cannot be combined with -; use --diff")
    if flags.unsafe_fixes and not (flags.fix or flags.diff):
        raise UserError("--unsafe-fixes requires --fix or --diff")
    if flags.verbose and flags.quiet:
        raise UserError("--verbose cannot be combined with --quiet; omit one of them")


def _job_file(flags: LintFlags) -> JobFile:
    if flags.config and flags.no_config:
        raise UserError("--config cannot be combined with --no-config")
    if flags.no_config:
        return JobFile()
    return load(flags.config, os.environ, os.getcwd())


def _show_diff(result: Lint, flags: LintFlags) -> int:
    """The fixes as a diff; the exit code is 1 if there are any."""
    fixed = fix_text(result, unsafe=flags.unsafe_fixes)
    for text in fixed.diffs:
        sys.stdout.write(text)
    for line in page.fix_lines(fixed.summary, fixed.refused):
        terminal.write(line, sys.stderr)
    return 1 if fixed.diffs else 0


def _deliver(result: Lint, flags: LintFlags, fixed: Fixed | None) -> int:
    report = redact(result.report, keep_names=True)
    detail: page.Detail = "quiet" if flags.quiet else "verbose" if flags.verbose else "normal"
    outputs = dict(delivery.lint_outputs(flags.output or ()))
    stdout = next((name for name, path in outputs.items() if path == delivery.STDOUT), flags.format)
    for name, path in outputs.items():
        if path != delivery.STDOUT:
            text = page.render(report, name, result.files, detail)
            delivery.write_file(path, text)
    if stdout == "console":
        page.show(report, result.files, detail, terminal.stdout_console(flags.color))
    else:
        terminal.write(page.render(report, stdout, result.files, detail), sys.stdout)
    if fixed is not None:
        stream = sys.stdout if stdout in ("console", "plain") else sys.stderr
        for line in page.fix_lines(fixed.summary, fixed.refused):
            terminal.write(line, stream)
    return report.exit_code
