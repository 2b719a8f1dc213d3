"""Versions of packages that a script runs with."""

from __future__ import annotations

import re

from doctor.checks.script.reading import Reading

NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def pinned(reading: Reading, package: str) -> str | None:
    """The lowest version that the requirements beside the script admit."""
    for part in reading.script.requirements.get(package, "").split(","):
        if part.strip()[:2] in ("==", ">=", "~="):
            return part.strip()[2:].strip()
    return None


def limited(reading: Reading, package: str, version: tuple[int, ...]) -> bool:
    """The requirements admit only versions below this one."""
    for part in reading.script.requirements.get(package, "").split(","):
        operator, number = part.strip()[:2], part.strip()[2:].strip()
        if operator in ("==", "~=") and release(number)[: len(version)] < version:
            return True
        below = release(part.strip().lstrip("<=")) if operator[:1] == "<" else ()
        if below and (below < version if operator == "<=" else below <= version):
            return True
    return False


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version; () where it starts with none."""
    match = NUMBERS.match(version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
