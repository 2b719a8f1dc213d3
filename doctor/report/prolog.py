"""Output of a node's prolog: one line, and a failure only for a machine observed to be at fault.

Slurm drains a node whose prolog fails, so problems of the job's own settings, unknown checks and
errors of the doctor itself let the job start.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from doctor._util.units import visible

if TYPE_CHECKING:
    from doctor.report.report import Report


def line(report: Report) -> str:
    """The verdict and the next action, in one line."""
    counts = ", ".join(f"{number} {status}" for status, number in report.counts.items() if number)
    action = " ".join((_warning(report) or report.next_action).split())
    consequence = "" if exit_code(report) else "; the job may start"
    return f"doctor: {report.headline} ({counts}): {action}{consequence}"


def _warning(report: Report) -> str:
    """The first warning about the machine, where nothing failed and what follows is unknown."""
    from doctor.judge.check import Owner, Status
    from doctor.report.report import Outcome

    if report.outcome is not Outcome.UNKNOWN:
        return ""
    found = (each for each in report.with_status(Status.WARN) if each.check.returns)
    warned = next((each for each in found if each.owner is not Owner.JOB), None)
    return f"{warned.check.code} {warned.check.slug}: {warned.verdict.summary}" if warned else ""


def exit_code(report: Report) -> int:
    """1 for RETURN, else 0."""
    from doctor.report.report import Outcome

    return int(report.outcome is Outcome.RETURN)


def failed(error: BaseException) -> str:
    """The line for a usage error or an error of the doctor itself."""
    message = getattr(error, "format_message", lambda: str(error) or repr(error))()
    return f"doctor: not examined, the job may start: {' '.join(str(message).split())}"


def print_line(text: str) -> None:
    """Print a line in ASCII; a log that cannot be written does not change the exit code."""
    try:
        print(visible(text).encode("ascii", "backslashreplace").decode())
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
