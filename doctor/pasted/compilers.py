"""The first error of a compiler in a text about a build that failed."""

from __future__ import annotations

import re
from collections.abc import Iterable

ERROR = re.compile(
    r"(?<![\w.+-])(?P<file>[\w.+-]{1,80}\.(?:cuh?|cpp|cc|cxx|c|hpp|h|mm))"
    r"(?P<line>[:(]\d{1,6}[\d:)]{0,12}): (?P<said>(?:fatal )?error: .{4,140})"
)
"""gcc, clang and nvcc, with the file and the line."""
OTHERS = re.compile(
    r"(?:^|\s)(?P<said>nvcc fatal\s{0,4}: .{4,140}|\S{0,60}\bld: cannot find -l\w.{0,60})"
)
"""The driver of nvcc, and the linker."""


def first_error(lines: Iterable[str]) -> str:
    """What is added to the line of a failed build: "; first error of the compiler: ..."; or ""."""
    for line in lines:
        match = ERROR.search(line)
        if match:
            return _added(f"{match['file']}{match['line']}: {match['said']}")
        if match := OTHERS.search(line):
            return _added(match["said"])
    return ""


def _added(text: str) -> str:
    return f"; first error of the compiler: {' '.join(text.split()).rstrip('.')[:170]}"
