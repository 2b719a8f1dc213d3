"""Errors of the user's own code that no change of kernels or numbers avoids, and their fixes."""

from __future__ import annotations

import re

from doctor.checks.training.errors import fixes_data, fixes_tensors, fixes_training
from doctor.facts.code_errors import CODE, code_error
from doctor.judge.check import Owner
from doctor.judge.error_patterns import ErrorPattern

CODE_FIXES = fixes_tensors.FIXES | fixes_data.FIXES | fixes_training.FIXES
"""Cause of `doctor.facts.code_errors.CODE` -> its remedy, where nothing else was observed."""
OWNERS = dict.fromkeys(
    ("a missing package", "numpy of another version", "no accelerate", "no compiler"),
    Owner.ENVIRONMENT,
)


FORWARD = re.compile(
    r"forward\(\) (?:takes|missing \d+ required positional|got an unexpected keyword)"
)
FORWARD_FIX = (
    "Fit the batch to the forward pass: a tuple or list is passed as module(*batch), a dict as "
    "module(**batch), a tensor as module(batch). For a batch of (inputs, labels) return the "
    "criterion as the third value, (module, batch, nn.CrossEntropyLoss()), or a function "
    "loss(module, batch)."
)


def find_fix(detail: str) -> ErrorPattern | None:
    """The fix of an error of the code itself, None if it is not known."""
    if FORWARD.search(detail):
        return ErrorPattern((), FORWARD_FIX, Owner.JOB)
    cause = code_error(detail)
    if cause is None:
        return None
    return ErrorPattern(CODE[cause], CODE_FIXES[cause], OWNERS.get(cause, Owner.JOB))
