"""python -m doctor, and the command `doctor`."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from itertools import pairwise
from types import FrameType

from doctor import __version__
from doctor._util.errors import UserError
from doctor.report import prolog

ERROR, USAGE, INTERRUPTED = 3, 2, 130


def main() -> None:
    """Run the command line. Exits 2 for a user's mistake, 3 for the doctor's own error."""
    if sys.platform == "win32":
        sys.exit(_mistake("Windows is not supported yet; run the doctor in WSL or on Linux."))
    _open_streams()
    signal.signal(signal.SIGTERM, _interrupted)
    sys.exit(_run())


def _open_streams() -> None:
    """A closed stdin, stdout or stderr is /dev/null, or pipes to probes would take its number."""
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:
        null = os.open(os.devnull, os.O_RDWR)
    os.close(null)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - they live as long as we do
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _run() -> int:
    try:
        code = _at_once(sys.argv[1:])
        if code is None:
            from doctor.cli.app import app

            code = app(standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (Exception, KeyboardInterrupt) as error:
        if _says("--context", "prolog"):
            prolog.print_line(prolog.failed(error))
            return 0
        code = _ended(error)
        return ERROR if code == USAGE and _says("--format", "nagios") else code
    finally:
        _flush()


def _says(flag: str, value: str) -> bool:
    """Whether the command line says so: to be known even where it does not parse."""
    words = [*sys.argv[1:], ""]
    return f"{flag}={value}" in words or (flag, value) in pairwise(words)


def _flush() -> None:
    """Leave nothing for Python's own exit to fail on."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _at_once(arguments: list[str]) -> int | None:
    """The commands that are typed in a hurry, without the half of their time that parsing takes."""
    match arguments:
        case ["--version"]:
            print(f"doctor {__version__}")
        case ["explain", name] if not name.startswith("-"):
            from doctor.judge import catalog
            from doctor.report import explain, terminal

            terminal.write(explain.explain(catalog.lookup(name)), sys.stdout)
        case _:
            return None
    return 0


def _ended(error: BaseException) -> int:
    """typer raises its own copy of click's exceptions, so they are known by their method."""
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return ERROR
    if message := getattr(error, "format_message", None):
        return _mistake(message().replace("Value error, ", ""))
    if isinstance(error, UserError):
        return _mistake(str(error))
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        print("doctor: the report could not be written: the disk is full", file=sys.stderr)
        return ERROR
    traceback.print_exc()
    print("doctor: this is an error of the doctor itself; please report it", file=sys.stderr)
    return ERROR


def _mistake(message: str) -> int:
    print(f"doctor: {' '.join(message.split())}", file=sys.stderr)
    return USAGE


def _interrupted(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
