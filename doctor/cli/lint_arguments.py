"""The usual command lines of `doctor lint` without the command-line parser.

The parser takes longer than the lint of one file. Whatever is not plain here is left to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from doctor.cli.lint_command import LintRequest
from doctor.report.formats.table import FORMATS, OLDER

SWITCHES = {
    "--fix": "fix",
    "--diff": "diff",
    "--unsafe-fixes": "unsafe_fixes",
    "--no-backup": "no_backup",
    "--habits": "habits",
    "-v": "verbose",
    "--verbose": "verbose",
    "-q": "quiet",
    "--quiet": "quiet",
    "--no-config": "no_config",
}
VALUES = {
    "--format": ("format", (*FORMATS, *OLDER)),
    "--fail-on": ("fail_on", ("fail", "warn", "never")),
    "--stdin-filename": ("stdin_filename", ()),
    "--cache": ("cache", ()),
}
LISTS = {"--only": "only", "--skip": "skip"}


def parse(words: Sequence[str]) -> LintRequest | None:
    """The request, None for a command line that the parser must read."""
    fields: dict[str, Any] = {}
    paths: list[str] = []
    rest = [part for word in words for part in _parts(word)]
    while rest:
        word = rest.pop(0)
        if word in SWITCHES:
            fields[SWITCHES[word]] = True
        elif word in VALUES and rest:
            name, choices = VALUES[word]
            value = rest.pop(0)
            if choices and value not in choices:
                return None
            fields[name] = OLDER.get(value, value) if name == "format" else value
        elif word in LISTS and rest:
            fields[LISTS[word]] = (*fields.get(LISTS[word], ()), rest.pop(0))
        elif word == "-" or not word.startswith("-"):
            paths.append(word)
        else:
            return None
    return LintRequest(**fields, paths=tuple(paths))


def _parts(word: str) -> list[str]:
    flag, equals, value = word.partition("=")
    return [flag, value] if equals and flag.startswith("--") else [word]
