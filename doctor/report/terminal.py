"""The report for a terminal: wrapped to its width; colour is never the only signal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TextIO

from doctor._util.units import visible

if TYPE_CHECKING:
    from rich.console import Console

    from doctor.report.line import Detail, Line
    from doctor.report.report import Report

Color = Literal["auto", "always", "never"]
ASCII = str.maketrans({"—": "-", "–": "-", "×": "x", "·": "|", "’": "'", "…": "..."})


def environment_color(environ: Mapping[str, str]) -> Color:
    """What NO_COLOR, CLICOLOR_FORCE and CLICOLOR ask for, the first that is set.

    The rules are those of <https://bixense.com/clicolors/>. rich reads FORCE_COLOR, which
    CLICOLOR=0 does not override.
    """
    if environ.get("NO_COLOR"):
        return "never"
    if environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return "always"
    return "never" if environ.get("CLICOLOR") == "0" and not environ.get("FORCE_COLOR") else "auto"


def stdout_console(color: Color) -> Console:
    """A console on stdout. With `color` auto, the environment and the kind of stream decide.

    Without colour it writes no escape sequences at all, neither for bold nor for dim.
    """
    return _console(color, stderr=False)


def stderr_console(color: Color) -> Console:
    """The same on stderr, where stdout belongs to another program."""
    return _console(color, stderr=True)


def _console(color: Color, *, stderr: bool) -> Console:
    from rich.console import Console

    color = environment_color(os.environ) if color == "auto" else color
    return Console(
        stderr=stderr,
        force_terminal=True if color == "always" else None,
        color_system=None if color == "never" else "auto",
        no_color=False if color == "always" else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def write(text: str, stream: TextIO) -> None:
    """Print the lines of a rendered text, in ASCII where the stream cannot encode it.

    Whoever rendered it has escaped the line ends of values: only the layout's are left.
    """
    print("\n".join(encodable(line, stream) for line in text.split("\n")), file=stream)


def encodable(text: str, stream: TextIO) -> str:
    """A value, or a part of a line, as `stream` can encode it; control characters are escaped."""
    encoding = stream.encoding or "ascii"
    printable = visible(text)
    try:
        printable.encode(encoding)
    except UnicodeEncodeError:
        printable = printable.translate(ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return printable


def show(report: Report, console: Console, detail: Detail = "normal") -> None:
    """Print to `console`. Untrusted text is never parsed as markup."""
    from doctor.report.lines import report_lines

    show_lines(report_lines(report, detail), console)


def show_lines(lines: Iterable[Line], console: Console) -> None:
    """Print to `console`, wrapped if it is a terminal."""
    width = console.width if console.is_terminal else None
    for line in lines:
        _print(line, console, width)


def _print(line: Line, console: Console, width: int | None) -> None:
    from rich.text import Text

    stream = sys.stderr if console.stderr else sys.stdout
    for prefix, part in line.rows(width):
        before, body = encodable(prefix, stream), encodable(part, stream)
        text = Text.assemble((before, line.style), (body, line.body_style))
        text.rstrip()
        console.print(text, soft_wrap=True, highlight=False)
