"""A finished report to stdout, to files and to the CI it runs in: the one way out."""

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
class Telling:
    """What is to be told, where, and how much of it."""

    format: Format = "console"
    outputs: tuple[tuple[str, Path], ...] = ()
    color: Color = "auto"
    detail: Detail = "normal"
    annotate: bool = False
    keep_names: bool = False


def telling(
    format: Format,
    outputs: Sequence[str],
    color: Color,
    *,
    saved: Path | None = None,
    annotate: bool,
    keep_names: bool,
    verbose: bool,
    quiet: bool,
) -> Telling:
    """From flags. Raises UserError where a file could not be written, or not beside `saved`."""
    return Telling(
        format=format,
        outputs=_files(outputs, saved),
        color=color,
        detail="quiet" if quiet else "verbose" if verbose else "normal",
        annotate=annotate,
        keep_names=keep_names,
    )


def _files(asked: Sequence[str], saved: Path | None) -> tuple[tuple[str, Path], ...]:
    """FORMAT=FILE each, found to be writable. Raises UserError."""
    taken = {os.path.realpath(saved)} if saved else set()
    found = []
    for text in asked:
        format, equals, file = text.partition("=")
        if not equals or not file:
            raise UserError(f"--output {text}: write FORMAT=FILE, as in html=report.html")
        if format not in FORMATS:
            near = difflib.get_close_matches(format, FORMATS, 1, 0.4) or [", ".join(FORMATS)]
            raise UserError(f"--output {text}: no format {format!r}; nearest: {near[0]}")
        path = Path(file)
        if os.path.realpath(path) in taken:
            raise UserError(f"--output {path} is named twice; each report needs a file of its own")
        check_writable(path, "--output")
        taken.add(os.path.realpath(path))
        found.append((format, path))
    return tuple(found)


def deliver(report: Report, telling: Telling) -> int:
    """Write, print, tell the CI; the exit code. Raises UserError.

    The files come first: whoever reads stdout may close it early.
    """
    shown = finished(report, telling)
    tried = [_write(shown, format, path) for format, path in telling.outputs]
    _print(shown, telling)
    for trouble in filter(None, tried):
        raise trouble
    if _drawn(telling, "github"):
        github.publish(shown, dict(telling.outputs), os.environ)
    return nagios.exit_code(report) if telling.format == "nagios" else report.exit_code


def deliver_in_prolog(report: Report, telling: Telling) -> int:
    """Print one line and write the files; the exit code. What cannot be written changes nothing."""
    shown = finished(report, telling)
    prolog.tell(prolog.line(shown))
    for format, path in telling.outputs:
        _write(shown, format, path)
    return prolog.exit_code(report)


def finished(report: Report, telling: Telling) -> Report:
    """The report as anyone may see it, with its prescription where a format has a place for it."""
    settings = tuple(prescribe(report.facts, report.findings)) if _drawn(telling, "html") else ()
    told = replace(report, annotate=telling.annotate, prescribed=settings)
    return redact(told, keep_names=telling.keep_names)


def _write(report: Report, format: str, path: Path) -> UserError | None:
    """None where it was written."""
    try:
        atomic_write(path, (FORMATS[format](report) + "\n").encode("utf-8", "replace"), "--output")
    except UserError as error:
        return error
    return None


def _drawn(telling: Telling, format: str) -> bool:
    return format == telling.format or format in dict(telling.outputs)


def _print(report: Report, telling: Telling) -> None:
    if telling.format == "console":
        terminal.show(report, terminal.stdout_console(telling.color), telling.detail)
    elif telling.format == "plain":
        terminal.write(render_plain(report, telling.detail), sys.stdout)
    else:
        terminal.write(FORMATS[telling.format](report), sys.stdout)
