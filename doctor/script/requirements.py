"""Versions that a requirements file beside a script pins."""

from __future__ import annotations

import os
import re

from doctor._util.regular_file import read_regular

LINE = re.compile(r"^\s*([A-Za-z][\w.\-]*)(?:\[[^\]]*\])?\s*([=<>~!][^#;\s]*(?:\s*,\s*[^#;\s]+)*)")
INSTALLS = re.compile(
    r"^\s*[!%]\s*(?:uv\s+)?(?:python3?\s+-m\s+)?pip3?\s+install\s+(.+)", re.MULTILINE
)
LIMIT = 1 << 16
LEVELS = 3
"""Directories up that are searched."""


class Requirements:
    """Requirements files by directory, each read once."""

    def __init__(self) -> None:
        self._read: dict[str, dict[str, str]] = {}

    def of(self, script: str) -> dict[str, str]:
        """Package -> specifier, of the nearest requirements.txt."""
        directory = os.path.dirname(script)
        for _ in range(LEVELS):
            if pins := self._in(directory):
                return pins
            if not directory:
                break
            directory = os.path.dirname(directory)
        return {}

    def _in(self, directory: str) -> dict[str, str]:
        if directory not in self._read:
            self._read[directory] = _parse(os.path.join(directory, "requirements.txt"))
        return self._read[directory]


def installed(source: str) -> dict[str, str]:
    """The same of what a notebook installs: %pip install "transformers==5.2.0"."""
    parts = [part.strip("'\"") for line in INSTALLS.findall(source) for part in line.split()]
    matches = (LINE.match(part) for part in parts)
    return {match[1].casefold(): match[2] for match in matches if match}


def _parse(path: str) -> dict[str, str]:
    try:
        text = read_regular(path, LIMIT).decode("utf-8", "replace")
    except OSError:
        return {}
    matches = (LINE.match(line) for line in text.splitlines())
    return {match[1].casefold(): match[2] for match in matches if match}
