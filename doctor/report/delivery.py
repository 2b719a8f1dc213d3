"""Write a finished report to stdout, to files and to the CI that it runs in."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from doctor._util.atomic_write import atomic_write, check_writable
from doctor._util.errors import UserError
from doctor.prescribe.rules import prescribe
from doctor.report import prolog, terminal
from doctor.report.formats import github, nagios
from doctor.report.formats.plain import render as render_plain
from doctor.report.formats.table import FORMATS
from doctor.report.lines import Detail
from doctor.report.redaction import redact
from doctor.report.report import Report
from doctor.report.terminal import Color

Format = Literal[
    "console", "plain", "json", "junit", "github", "markdown", "sarif", "nagios", "html"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Formats, files and level of detail of a report."""

    format: Format = "console"
    outputs: tuple[tuple[str, Path], ...] = ()
    """Format and file of each --output."""
    color: Color = "auto"
    detail: Detail = "normal"
    annotate: bool = False
    keep_names: bool = False


def output_options(
    format: Format,
    outputs: Sequence[str],
    color: Color,
    *,
    save_facts: Path | None = None,
    annotate: bool,
    keep_names: bool,
    verbose: bool,
    quiet: bool,
) -> OutputOptions:
    """From flags. Raises UserError for a file that cannot be written or is named twice."""
    return OutputOptions(
        format=format,
        outputs=_outputs(outputs, save_facts),
        color=color,
        detail="quiet" if quiet else "verbose" if verbose else "normal",
        annotate=annotate,
        keep_names=keep_names,
    )


def _outputs(values: Sequence[str], save_facts: Path | None) -> tuple[tuple[str, Path], ...]:
    """Parse FORMAT=FILE and check that each file can be written. Raises UserError."""
    used = {os.path.realpath(save_facts)} if save_facts else set()
    outputs = []
    for value in values:
        format, equals, file = value.partition("=")
        if not equals or not file:
            raise UserError(f"--output {value}: expected FORMAT=FILE, for example html=report.html")
        if format not in FORMATS:
            nearest = difflib.get_close_matches(format, FORMATS, 1, 0.4) or [", ".join(FORMATS)]
            raise UserError(f"--output {value}: unknown format {format!r}; nearest: {nearest[0]}")
        path = Path(file)
        if os.path.realpath(path) in used:
            raise UserError(f"--output {path} is named twice; each report needs its own file")
        check_writable(path, "--output")
        used.add(os.path.realpath(path))
        outputs.append((format, path))
    return tuple(outputs)


def deliver(report: Report, options: OutputOptions) -> int:
    """Write the files, print, publish to CI; return the exit code. Raises UserError.

    Files are written first, because the reader of stdout may close it early.
    """
    final = finished(report, options)
    errors = [_write(final, format, path) for format, path in options.outputs]
    _print(final, options)
    for error in filter(None, errors):
        raise error
    if _uses(options, "github"):
        github.publish(final, dict(options.outputs), os.environ)
    return nagios.exit_code(report) if options.format == "nagios" else report.exit_code


def deliver_in_prolog(report: Report, options: OutputOptions) -> int:
    """Print one line and write the files; return the exit code, which no write error changes."""
    final = finished(report, options)
    prolog.print_line(prolog.line(final))
    for format, path in options.outputs:
        _write(final, format, path)
    return prolog.exit_code(report)


def finished(report: Report, options: OutputOptions) -> Report:
    """The redacted report, with a prescription if a format shows it."""
    settings = tuple(prescribe(report.facts, report.findings)) if _uses(options, "html") else ()
    complete = replace(report, annotate=options.annotate, settings=settings)
    return redact(complete, keep_names=options.keep_names)


def _write(report: Report, format: str, path: Path) -> UserError | None:
    """Write one file; return the error instead of raising it, so that the others are written."""
    try:
        atomic_write(path, (FORMATS[format](report) + "\n").encode("utf-8", "replace"), "--output")
    except UserError as error:
        return error
    return None


def _uses(options: OutputOptions, format: str) -> bool:
    return format == options.format or format in dict(options.outputs)


def _print(report: Report, options: OutputOptions) -> None:
    if options.format == "console":
        terminal.show(report, terminal.stdout_console(options.color), options.detail)
    elif options.format == "plain":
        terminal.write(render_plain(report, options.detail), sys.stdout)
    else:
        terminal.write(FORMATS[options.format](report), sys.stdout)
