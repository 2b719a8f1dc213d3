"""A node's prolog: one line, and a failure only for a machine that was seen to be at fault.

Slurm drains a node whose prolog fails, so a job's own settings, what could not be read and errors
of the doctor itself let the job start.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from doctor._util.units import visible

if TYPE_CHECKING:
    from doctor.report.report import Report


def line(report: Report) -> str:
    """The verdict and what to do, in one line."""
    counts = ", ".join(f"{number} {status}" for status, number in report.counts.items() if number)
    action = " ".join(report.next_action.split())
    ends = "" if exit_code(report) else "; the job may start"
    return f"doctor: {report.outcome.upper()} ({counts}): {action}{ends}"


def exit_code(report: Report) -> int:
    """1 for RETURN, else 0."""
    from doctor.report.report import Outcome

    return int(report.outcome is Outcome.RETURN)


def failed(error: BaseException) -> str:
    """The line for an error of the doctor or of its command line."""
    told = getattr(error, "format_message", lambda: str(error) or repr(error))()
    return f"doctor: not examined, the job may start: {' '.join(str(told).split())}"


def tell(text: str) -> None:
    """Print a line in ASCII; a log that takes nothing more changes no verdict."""
    try:
        print(visible(text).encode("ascii", "backslashreplace").decode())
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
