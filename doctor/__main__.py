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
    """Run the command line. Exits 2 for a usage error, 3 for an internal error."""
    if sys.platform == "win32":
        sys.exit(_usage_error("Windows is not supported; run doctor in WSL or on Linux"))
    _open_streams()
    signal.signal(signal.SIGTERM, _interrupted)
    sys.exit(_run())


def _open_streams() -> None:
    """Open closed standard streams on /dev/null: a pipe to a probe would take their numbers."""
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:
        null = os.open(os.devnull, os.O_RDWR)
    os.close(null)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - open for the whole run
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _run() -> int:
    try:
        code = _run_fast(sys.argv[1:])
        if code is None:
            from doctor.cli.app import app

            code = app(standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (Exception, KeyboardInterrupt) as error:
        if _has_option("--context", "prolog"):
            prolog.print_line(prolog.failed(error))
            return 0
        code = _exit_code(error)
        return ERROR if code == USAGE and _has_option("--format", "nagios") else code
    finally:
        _flush()


def _has_option(flag: str, value: str) -> bool:
    """Whether the command line has an option, known even where it does not parse."""
    words = [*sys.argv[1:], ""]
    return f"{flag}={value}" in words or (flag, value) in pairwise(words)


def _flush() -> None:
    """Flush, so that nothing can fail when Python exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_fast(arguments: list[str]) -> int | None:
    """Frequent commands without the command-line parser, which takes half of their time."""
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


def _exit_code(error: BaseException) -> int:
    """Print the error, if it has a message.

    typer raises its own copy of click's exceptions, so they are recognized by their method.
    """
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return ERROR
    if message := getattr(error, "format_message", None):
        return _usage_error(message().replace("Value error, ", ""))
    if isinstance(error, UserError):
        return _usage_error(str(error))
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        print("doctor: the report could not be written: the disk is full", file=sys.stderr)
        return ERROR
    traceback.print_exc()
    print("doctor: internal error; please report it with the traceback above", file=sys.stderr)
    return ERROR


def _usage_error(message: str) -> int:
    print(f"doctor: {' '.join(message.split())}", file=sys.stderr)
    return USAGE


def _interrupted(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
