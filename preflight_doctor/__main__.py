"""The command `doctor`, outside the package `doctor`.

Another distribution on PyPI, named doctor, installs a package of the same name. If its files
replaced this one's, `python -m doctor` starts theirs, and may fail before any code of this project
runs; `doctor` and `python -m preflight_doctor` start here.
"""

from __future__ import annotations

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - run from a checkout, or of an installation by force
    sys.exit(
        f"doctor: needs Python 3.11 or newer, and this is {sys.version.split()[0]}; `uvx --python "
        "3.12 --from ADDRESS doctor run` brings one and examines the torch of this one"
    )

FOLDER = os.path.realpath(f"{__file__}/../..")
if __name__ == "__main__" and not sys.flags.safe_path and os.path.realpath(sys.path[0]) != FOLDER:
    del sys.path[0]  # the working directory, whose modules would be imported for the doctor's

import signal  # noqa: E402 - from the standard library and nowhere else

OURS = "preflight-doctor"


def main() -> None:
    """Run the command line; see `doctor.cli.main`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda signum, frame: os._exit(130))  # until main is imported
    try:
        import doctor

        if getattr(doctor, "DISTRIBUTION", "") != OURS:
            raise _OtherPackageError(doctor.__file__ or next(iter(doctor.__path__)))
        from doctor.cli.main import main as run
    except Exception as error:
        if message := _namesake() or _other(error):
            print(message, file=sys.stderr)
            sys.exit(2)
        raise
    run()


class _OtherPackageError(ImportError):
    """Another module is imported as doctor; the argument is its file, or a directory of it."""


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
        "the same name; run: python -m pip uninstall doctor, then install this project again, with "
        "--force-reinstall, from the checkout or address that it came from"
    )


if __name__ == "__main__":
    main()
