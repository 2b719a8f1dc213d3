"""Usual command lines without the command-line parser, which takes longer than a short command.

Whatever is not plain here is left to the parser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from doctor.report.formats.table import FORMATS, OLDER


class Flags(NamedTuple):
    """The flags of a command -> names of its fields."""

    switches: Mapping[str, tuple[str, bool]]
    values: Mapping[str, tuple[str, tuple[str, ...]]]
    """With the accepted values; () for any."""
    lists: Mapping[str, str]


FORMAT = ("format", (*FORMATS, *OLDER))
FAIL_ON = ("fail_on", ("fail", "warn", "never"))
VERBOSITY = {
    "-v": ("verbose", True),
    "--verbose": ("verbose", True),
    "-q": ("quiet", True),
    "--quiet": ("quiet", True),
}


def parse(words: Sequence[str], flags: Flags) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Fields and paths, None for a command line that the parser must read."""
    fields: dict[str, Any] = {}
    paths: list[str] = []
    rest = [part for word in words for part in _parts(word)]
    while rest:
        word = rest.pop(0)
        if word in flags.switches:
            name, state = flags.switches[word]
            fields[name] = state
        elif word in flags.values and rest:
            name, choices = flags.values[word]
            value = rest.pop(0)
            if choices and value not in choices:
                return None
            fields[name] = OLDER.get(value, value) if name == "format" else value
        elif word in flags.lists and rest:
            name = flags.lists[word]
            fields[name] = (*fields.get(name, ()), rest.pop(0))
        elif word == "-" or not word.startswith("-"):
            paths.append(word)
        else:
            return None
    return fields, tuple(paths)


def _parts(word: str) -> list[str]:
    flag, equals, value = word.partition("=")
    return [flag, value] if equals and flag.startswith("--") else [word]
