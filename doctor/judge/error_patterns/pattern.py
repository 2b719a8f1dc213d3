"""One row of the table of error messages, and how to find it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from doctor.judge.check import Owner

LD_PATHS = ('echo "$LD_LIBRARY_PATH" "$LD_PRELOAD"',)
WHO_USES_IT = ("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",)
KERNEL_LOG = ("sudo dmesg | grep -iE 'xid|nvrm'",)


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """An error message that contains any of `texts` has this cause and this remedy."""

    texts: tuple[str, ...]
    fix: str
    owner: Owner = Owner.ENVIRONMENT
    sources: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    cause: str = ""
    """In a few words; "" in the short tables of single checks."""


def match_error(message: str, patterns: Iterable[ErrorPattern]) -> ErrorPattern | None:
    """The first pattern one of whose texts the message contains; case does not matter."""
    lower = message.casefold()
    matching = (p for p in patterns if any(text.casefold() in lower for text in p.texts))
    return next(matching, None)
