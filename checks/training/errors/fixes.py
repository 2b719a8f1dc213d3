"""Errors of the user's own code that no change of kernels or numbers avoids, and their fixes."""

from __future__ import annotations

from doctor.checks.training.errors import fixes_data, fixes_tensors, fixes_training
from doctor.facts.code_errors import CODE, code_error
from doctor.judge.check import Owner
from doctor.judge.error_patterns import ErrorPattern

CODE_FIXES = fixes_tensors.FIXES | fixes_data.FIXES | fixes_training.FIXES
"""Cause of `doctor.facts.code_errors.CODE` -> its remedy, where nothing else was observed."""
OWNERS = dict.fromkeys(
    ("a missing package", "numpy of another version", "no accelerate"), Owner.ENVIRONMENT
)


def find_fix(detail: str) -> ErrorPattern | None:
    """The fix of an error of the code itself, None if it is not known."""
    cause = code_error(detail)
    if cause is None:
        return None
    return ErrorPattern(CODE[cause], CODE_FIXES[cause], OWNERS.get(cause, Owner.JOB))
