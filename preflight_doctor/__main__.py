"""The command `doctor`, outside the package `doctor`.

Another distribution on PyPI, named doctor, installs a package of the same name. If its files
replaced this one's, `python -m doctor` starts theirs, and may fail before any code of this project
runs; `doctor` and `python -m preflight_doctor` start here.
"""

from __future__ import annotations

import os
import signal
import sys

OURS = "preflight-doctor"


def main() -> None:
    """Run the command line; see `doctor.cli.main`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda signum, frame: os._exit(130))  # until main is imported
    try:
        import doctor

        if getattr(doctor, "DISTRIBUTION", "") != OURS:
            raise _OtherPackageError(next(iter(doctor.__path__)))
        from doctor.cli.main import main as run
    except Exception as error:
        if message := _namesake() or _other(error):
            print(message, file=sys.stderr)
            sys.exit(2)
        raise
    run()


class _OtherPackageError(ImportError):
    """Another package is imported as doctor; the argument is its directory."""


def _other(error: Exception) -> str:
    """What to do about a directory that hides this package, "" for another error."""
    if not isinstance(error, _OtherPackageError):
        return ""
    return (
        f"doctor: {error} is imported in place of {OURS}; run the command `doctor`, or start from "
        "another directory"
    )


def _namesake() -> str:
    """What to do about the distribution `doctor`, "" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        namesake = f"doctor {version('doctor')}"
    except PackageNotFoundError:
        return ""
    return (
        f"doctor: the distribution {namesake} is installed in this environment and its package has "
        "the same name; run: python -m pip uninstall doctor, then: python -m pip install "
        f"--force-reinstall {OURS} (or install {OURS} with pipx)"
    )


if __name__ == "__main__":
    main()
