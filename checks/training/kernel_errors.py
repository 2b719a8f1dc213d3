"""An error of a kernel, which torch raises at a later call: its assertion, and the step on the CPU.

The call that raises on a GPU is often not the one that failed. What names it is the line that the
kernel printed, and the error of the same forward pass on the CPU.
"""

from __future__ import annotations

import re

from doctor.errors.cause import Cause
from doctor.errors.causes import BY_ID
from doctor.errors.fitted import fitted
from doctor.errors.match import first
from doctor.facts.error_texts import ASYNCHRONOUS
from doctor.facts.own_model import OwnModel

ASSERTIONS = (BY_ID["assert-multinomial"], BY_ID["device-side-assert"])


def raised_later(detail: str) -> bool:
    """Whether an earlier kernel than the call that raised may have failed."""
    lower = detail.casefold()
    return any(text in lower for text in ASYNCHRONOUS)


def observed(own: OwnModel) -> str:
    """What names the kernel's error, as clauses of a summary."""
    diagnosis = own.smoke.diagnosis if own.smoke else None
    clauses = []
    if own.assertion:
        clauses.append(f"the kernel printed: {own.assertion}")
    if diagnosis and diagnosis.on_cpu:
        clauses.append(f"the same forward pass on the CPU {diagnosis.on_cpu}")
    return "".join(f"; {clause}" for clause in clauses)


def by_assertion(own: OwnModel) -> Cause | None:
    """The remedy for the assertion that failed, None if it is not known."""
    row = first(own.assertion, ASSERTIONS) if own.assertion else None
    return fitted(row, own.assertion) if row else None


def by_ignored_label(own: OwnModel) -> Cause | None:
    """The remedy for a label that losses ignore, where the CPU names it as the index."""
    named = IGNORED_LABEL.search(error_on_cpu(own))
    return BY_ID["ignored-label-as-index"] if named else None


IGNORED_LABEL = re.compile(r"index -100 is out of bounds")
"""Only -100: 255 and -1 may be indices of their own."""


def error_on_cpu(own: OwnModel) -> str:
    """The error of the forward pass on the CPU, if an index explains it there, else ""."""
    diagnosis = own.smoke.diagnosis if own.smoke else None
    return diagnosis.on_cpu if diagnosis and diagnosis.index_on_cpu else ""
