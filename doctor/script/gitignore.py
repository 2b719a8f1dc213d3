"""Which entries of a directory `.gitignore` files leave out, read without starting git.

git itself runs programs that a repository's configuration names, so it is never started. The index
is not read either: a tracked file that a pattern matches counts as ignored.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from doctor._util.regular_file import read_regular

LIMIT = 256 * 1024
"""Bytes of a file of patterns that are read."""
MOST_PATTERNS = 2_000
MOST_STARS = 2
"""In one name of a pattern, and `**` in all of it: the cost of each further one is a factor of the
length of a name (our own number)."""
CLASSES = {"alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "lower": "a-z", "upper": "A-Z"}
"""Of characters, which pathspec does not know."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of one file; the last one that matches decides."""

    base: str
    """The directory that they are relative to, with a slash at its end."""
    rules: tuple[tuple[re.Pattern[str], bool], ...]
    """The expression of a whole path below `base`, directories with a slash at their end, and
    whether it leaves out."""
    unused: int = 0
    """How many lines are not applied."""

    def decide(self, path: str) -> bool | None:
        """Whether the entry is left out; None if no pattern matches."""
        relative = path[len(self.base) :]
        return next((out for rule, out in self.rules if rule.fullmatch(relative)), None)


def ignored(path: str, files: tuple[Patterns, ...]) -> bool:
    """Whether the patterns leave the entry out: the deepest file that has an opinion decides."""
    return next((out for each in files if (out := each.decide(path)) is not None), False)


def read_patterns(file: str, base: str) -> Patterns | None:
    """The patterns of a regular file that is no link; None where there are none."""
    try:
        data = read_regular(file, LIMIT, follow=False)
    except OSError:
        return None
    lines = os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).split("\n")
    lines = [line for line in map(_stripped, lines) if line and not line.startswith("#")]
    rules = tuple(_rules(lines[:MOST_PATTERNS]))
    return Patterns(base, rules[::-1], len(lines) - len(rules)) if lines else None


def _stripped(line: str) -> str:
    """Without the spaces at the end, of which a backslash keeps one."""
    line = line.removesuffix("\r")
    bare = line.rstrip(" ")
    escaped = (len(bare) - len(bare.rstrip("\\"))) % 2
    return bare + " " if escaped and bare != line else bare


def _rules(lines: list[str]) -> Iterator[tuple[re.Pattern[str], bool]]:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    for line in lines:
        sign, glob = ("!", line[1:]) if line.startswith("!") else ("", line)
        if _is_costly(glob):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of re, about brackets
                pattern = GitIgnoreSpecPattern(sign + _entry(glob))
        except (ValueError, re.error, RecursionError, OverflowError):
            continue  # git drops a pattern that it cannot read
        if pattern.regex is not None:
            yield pattern.regex, bool(pattern.include)


def _is_costly(glob: str) -> bool:
    names = glob.split("/")
    return names.count("**") > MOST_STARS or any(
        name.count("*") > MOST_STARS and name != "**" for name in names
    )


def _entry(glob: str) -> str:
    """The same for an expression that must match a whole path: pathspec's matches its beginning."""
    for name, characters in CLASSES.items():
        glob = glob.replace(f"[:{name}:]", characters)
    slash = "/" if glob.endswith("/") else ""
    glob = glob.removesuffix("/")
    if glob in ("*", "**", "/**", "**/*", "/**/*"):
        return f"?*{slash}"
    return f"{glob}/*{slash}" if glob.endswith("/**") else f"{glob}{slash}"
