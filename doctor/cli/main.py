"""A process of the command `doctor`: signals, errors and exit codes around the command line."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import re
import signal
import sys
import traceback
from itertools import pairwise
from types import FrameType

from doctor import __version__
from doctor._util.errors import UserError
from doctor._util.limits import limit_reached
from doctor._util.streams import flush, open_standard_streams
from doctor._util.units import visible
from doctor.cli.meant import no_such_option
from doctor.report import prolog

ERROR, USAGE = 3, 2
NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "it exceeds the limit of a file's size (ulimit -f)",
}
_received: list[int] = []
"""Signals that ended the run; typer replaces the exception that they raised."""


def main() -> None:
    """Run the command line.

    Exits 2 for a usage error, 3 for an internal error, 128 + N after signal N.
    """
    if sys.platform == "win32":
        sys.exit(_usage_error("Windows is not supported; run doctor in WSL or on Linux"))
    try:
        open_standard_streams()
    except UserError as error:
        _usage_error(str(error))
        sys.exit(ERROR)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _raise_again
    code = _run()
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback while Python exits
    sys.exit(code)


def _run() -> int:
    try:
        code = _run_fast(sys.argv[1:])
        if code is None:
            code = _run_parsed(sys.argv[1:])
        if _received:  # typer returns 130 for a KeyboardInterrupt
            raise KeyboardInterrupt("interrupted by a signal")
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (Exception, KeyboardInterrupt) as error:
        if _has_option("--context", "prolog"):
            prolog.print_line(prolog.failed(error))
            return 0
        code = _exit_code(error)
        return ERROR if code == USAGE and _has_option("--format", "nagios") else code
    finally:
        _end_early()
        flush()


def _end_early() -> None:
    """End the process that a run which was refused did not need."""
    if early := sys.modules.get("doctor.collect.early"):
        early.end()


def _has_option(flag: str, value: str) -> bool:
    """Whether the command line has an option, known even where it does not parse."""
    words = [*sys.argv[1:], ""]
    return f"{flag}={value}" in words or (flag, value) in pairwise(words)


def _run_fast(arguments: list[str]) -> int | None:
    """Frequent commands without the command-line parser, which takes half of their time."""
    words = arguments[1:]
    match arguments:
        case ["--version" | "-V"]:
            print(f"doctor {__version__}")
        case ["--version" | "-V", "-v" | "--verbose"] | ["-v" | "--verbose", "--version" | "-V"]:
            from datetime import date

            from doctor.cli import knowledge

            print(knowledge.text(date.today()))
        case ["explain", _, *_] if not any(map(_is_option, words)):
            from doctor.cli.explain.name import explain
            from doctor.report import terminal

            terminal.write(explain(" ".join(words)), sys.stdout)
        case ["list", *_] if not any(map(_is_option, words)):
            from doctor.cli.explain.name import listed
            from doctor.report import terminal

            terminal.write(listed(words), sys.stdout)
        case ["lint", *_]:
            from doctor.cli.lint.arguments import request_of
            from doctor.cli.lint.command import lint

            request = request_of(words)
            return None if request is None else lint(request)
        case ["read", *_]:
            from doctor.cli import read_arguments

            return read_arguments.read(words)
        case ["run", *_] | ["fleet", "run", *_]:
            from doctor.collect import early

            early.start(words)
            return None
        case _:
            return None
    return 0


def _run_parsed(arguments: list[str]) -> int | None:
    from doctor.cli.app import COMMANDS, command_line

    word = next(iter(arguments), "")
    is_one = word in ("fleet", *COMMANDS) and word != "help"
    is_help = word in ("", "-h", "--help") and "_DOCTOR_COMPLETE" not in os.environ
    code: int | None = command_line(word if is_one or is_help else None)(standalone_mode=False)
    return code


def _is_option(word: str) -> bool:
    """Whether it is written as a flag: a pasted text may begin with a dash, too."""
    return word.startswith("-") and word != "-" and not word.partition("=")[0].count(" ")


def _exit_code(error: BaseException) -> int:
    """Print the error, if it has a message.

    typer raises its own copy of click's exceptions, so they are recognized by their method.
    """
    if type(error).__name__ == "Abort" and isinstance(error.__cause__, EOFError):
        error = error.__cause__  # typer takes it for the end of an input; the doctor reads none
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return 128 + (_received or [signal.SIGINT])[0]
    if message := getattr(error, "format_message", None):
        text = message().replace("Value error, ", "")
        return _usage_error(_with_example(_with_nearest(no_such_option(error) or text), error))
    if isinstance(error, UserError):
        return _usage_error(str(error))
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        print(f"doctor: the report could not be written: {NO_ROOM[error.errno]}", file=sys.stderr)
        return ERROR
    if limit := limit_reached(error):
        print(f"doctor: {limit}", file=sys.stderr)
        return ERROR
    for line in traceback.format_exc().rstrip("\n").split("\n"):
        print(_redacted(line), file=sys.stderr)
    print("doctor: internal error; please report it with the traceback above", file=sys.stderr)
    return ERROR


def _with_nearest(message: str) -> str:
    """The message on a value that is not one of several, with the one that was probably meant."""
    if message.startswith("No such command") and "did you mean" not in message.casefold():
        return f"{message.rstrip('.')}; doctor --help lists the commands"
    value, is_not, choices = message.partition(" is not one of ")
    names = re.findall("'([^']+)'", choices)
    given = value.rpartition(" ")[2].strip("'")
    nearest = difflib.get_close_matches({"gpu": "cuda"}.get(given, given), names, 1, 0.6)
    return f"{message.rstrip('.')}; did you mean {nearest[0]}?" if is_not and nearest else message


def _with_example(message: str, error: BaseException) -> str:
    """The message on a missing argument, with the example of the command's help."""
    example = getattr(getattr(error, "cmd", None), "epilog", None)
    is_missing = type(error).__name__ == "MissingParameter"
    return (
        f"{message.rstrip('.')}; {example[0].lower()}{example[1:]}"
        if is_missing and example
        else message
    )


def _usage_error(message: str) -> int:
    print(f"doctor: {_redacted(' '.join(message.split()))}", file=sys.stderr)
    return USAGE


def _redacted(text: str) -> str:
    from doctor._util.secrets import hide_secrets  # its expressions take a twentieth of a start

    return visible(hide_secrets(text))


def _interrupt(signum: int, frame: FrameType | None) -> None:
    _received.append(signum)
    raise KeyboardInterrupt


def _raise_again(ignored: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised inside a callback or a destructor; a signal must not be lost."""
    if not _received or not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    with contextlib.suppress(ValueError):  # another thread than the main one
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
