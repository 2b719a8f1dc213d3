"""The rows of the table of errors for what the user's own training raises."""

from __future__ import annotations

from doctor.checks.training import smoke_errors
from doctor.errors.cause import Cause
from doctor.errors.causes import BY_ID
from doctor.errors.fitted import fitted
from doctor.errors.match import with_message
from doctor.facts.own_model import OwnModel
from doctor.judge.check import Owner

INDEX_ERROR = BY_ID["index-out-of-range"]
ERRORS = (BY_ID["cuda-oom"], INDEX_ERROR, BY_ID["device-side-assert"], *smoke_errors.ERRORS)
"""Errors of kernels and libraries; the first that has the message counts."""
LIBRARIES = ("cuda", "nvml", "nccl", "cublas", "cudnn", "hip error", "xid")
"""Words of a message that a library of the GPU or its driver raised."""


def errors_of(message: str) -> tuple[Cause, ...]:
    """Those of `ERRORS` that an error of the user's code may have."""
    return tuple(row for row in ERRORS if _may_be(row, message))


def causes_of(own: OwnModel) -> tuple[str, ...]:
    """Ids of the causes that the error of the training may have, the most frequent first."""
    if own.raised is None:  # the message is the doctor's own
        message = "" if own.built.ok else own.built.detail
    else:
        message = f"{own.raised.error}: {own.raised.message}"
    return tuple(row.id for row in possible(message))


def possible(message: str) -> tuple[Cause, ...]:
    """The causes that an error of the code may have, the most frequent first."""
    rows = (row for row in with_message(message) if row.fix and _may_be(row, message))
    return tuple(fitted(row, message) for row in rows)


def find_cause(detail: str) -> Cause | None:
    """The most frequent cause of an error of the code, None if none is known."""
    return next(iter(possible(detail)), None)


def _may_be(row: Cause, message: str) -> bool:
    """Any program may raise "GPU is lost" or "not yet initialized": it condemns the machine only
    in a message of CUDA, NVML or NCCL."""
    of_library = any(word in message.casefold() for word in LIBRARIES)
    return of_library or row.owner is not Owner.MACHINE
