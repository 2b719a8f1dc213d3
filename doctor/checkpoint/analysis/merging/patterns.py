"""Numbers by patterns of module names, as peft's alpha_pattern and rank_pattern give them."""

from __future__ import annotations

import re

from doctor._util.units import shown

LONGEST_KEY = 500
LONGEST_NAME = 300
MOST = 5_000

STEPS = 2_000_000_000
"""Of matching, for all modules of an adapter: some seconds at worst."""

_UNBOUNDED = re.compile(r"[*+{]")
_QUANTIFIED_GROUP = re.compile(r"\)\s*[*+?{]")


class NoNumberError(Exception):
    """Which entry gives no number, for people."""


class Patterns:
    """The entries of an untrusted dictionary of patterns and numbers."""

    def __init__(self, name: str, entries: object) -> None:
        self._name = name
        self._entries = entries if isinstance(entries, dict) else {}
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._left = STEPS

    def of(self, module: str) -> object:
        """What the first pattern that matches the end of the name gives; None: none matches.

        Raises NoNumberError for what would take long to match.
        """
        if len(self._entries) > MOST:
            raise NoNumberError(f"{self._name} has {len(self._entries):,} entries")
        for key, value in self._entries.items():
            if isinstance(key, str) and self._matches(key, module):
                if value is None:
                    raise NoNumberError(f"{self._name}: {shown(key, 80)} has no number")
                return value
        return None

    def _matches(self, key: str, module: str) -> bool:
        if module == key or module.endswith(f".{key}"):
            return True
        pattern = self._compiled.get(key)
        if pattern is None:
            pattern = self._compiled[key] = self._compile(key)
        self._left -= _steps(key, module)
        if len(module) > LONGEST_NAME or self._left < 0:
            raise self._not_evaluated(key)
        return pattern.match(module) is not None

    def _compile(self, key: str) -> re.Pattern[str]:
        slow = len(_UNBOUNDED.findall(key)) > 1 or _QUANTIFIED_GROUP.search(key)
        if slow or len(key) > LONGEST_KEY:
            raise self._not_evaluated(key)
        try:
            return re.compile(rf"(.*\.)?({key})$")
        except (re.error, RecursionError, OverflowError) as error:
            raise self._not_evaluated(key) from error

    def _not_evaluated(self, key: str) -> NoNumberError:
        return NoNumberError(f"{self._name}: pattern not evaluated: {shown(key, 80)}")


def _steps(key: str, module: str) -> int:
    """At most so many steps does a match take: places to begin, ways through the pattern."""
    ways: int = (1 + key.count("|")) ** key.count("(") * 2 ** key.count("?")
    if _UNBOUNDED.search(key):
        ways = max(ways, len(key))
    return len(module) * (1 + module.count(".")) * ways
