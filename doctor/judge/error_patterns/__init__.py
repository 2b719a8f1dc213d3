"""Error messages and signals whose cause is known: one table for every check that reads them.

Only rows that the machine's owner must fix condemn hardware; a message in no row never does.
"""

from __future__ import annotations

from doctor._util.records import Ended
from doctor.judge.check import Verdict, fail, unknown
from doctor.judge.error_patterns.communication import KILLED, NCCL, SIGNALS
from doctor.judge.error_patterns.driver import DRIVER
from doctor.judge.error_patterns.gpu import (
    ALLOCATOR_OPTIONS,
    ALLOCATOR_VARIABLES,
    BROKEN_GPU,
    CUDA,
    GPU_TAKEN,
    MATH_LIBRARIES,
    MIXED_CUDNN,
    NO_GPU_CODE,
    REFUSES_DEVICE,
)
from doctor.judge.error_patterns.pattern import KERNEL_LOG, ErrorPattern, match_error

__all__ = [
    "ALLOCATOR_OPTIONS",
    "ALLOCATOR_VARIABLES",
    "BROKEN_GPU",
    "GPU_TAKEN",
    "KERNEL_LOG",
    "KILLED",
    "LIBRARY_PATTERNS",
    "MIXED_CUDNN",
    "NO_GPU_CODE",
    "PATTERNS",
    "REFUSES_DEVICE",
    "ErrorPattern",
    "fail_by",
    "find_pattern",
    "match_error",
]

LIBRARY_PATTERNS = (*DRIVER, *CUDA, *MATH_LIBRARIES, *NCCL)
"""Messages; the first match counts, so the more specific row comes first."""
PATTERNS = (*LIBRARY_PATTERNS, *SIGNALS)


def find_pattern(ended: Ended) -> ErrorPattern | None:
    """The row of the table for how a call or a child process ended, None if there is none."""
    return None if ended.ok else match_error(ended.detail, PATTERNS)


def fail_by(pattern: ErrorPattern, summary: str, *, seconds: float = 0.0) -> Verdict:
    """The failure that a row of the table explains; unknown if the process was killed."""
    if pattern is KILLED:
        return unknown(f"{summary}; killed from outside, most often for want of memory: MEM002")
    return fail(
        summary,
        *pattern.commands,
        fix=pattern.fix,
        owner=pattern.owner,
        sources=pattern.sources,
        seconds=seconds,
    )
