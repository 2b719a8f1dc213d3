"""Expressions over the lines of a log, and the literals that every line they match contains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from doctor.log.templates import letters

SHORTEST = 4
"""Letters that a cue has at least: shorter ones occur in every log."""


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A class of lines. `expression` is searched in a line without escape sequences."""

    name: str
    expression: str
    harmless: bool = False


_WORD = re.compile(r"[A-Za-z_]{4,}")
_ESCAPE = re.compile(r"\\.")


def with_words_of(text: str, patterns: Iterable[LinePattern]) -> list[LinePattern]:
    """Those of the patterns that have a word in common with the text: quicker than a gate."""
    return [
        pattern
        for pattern in patterns
        if any(word in text for word in _WORD.findall(_ESCAPE.sub(" ", pattern.expression)))
    ]


class Gate:
    """All patterns, and the quick test whether a line's letters admit any of them."""

    def __init__(self, patterns: Iterable[LinePattern]) -> None:
        self._patterns = tuple(patterns)
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._by_cue: dict[bytes, list[int]] = {}
        self._literals: list[tuple[bytes, ...]] = []
        for number, pattern in enumerate(self._patterns):
            literals = literals_of(pattern.expression)
            self._literals.append(tuple(literal.encode() for literal in literals))
            for cue in dict.fromkeys(map(letters, literals)):
                self._by_cue.setdefault(cue, []).append(number)

    @property
    def literals(self) -> set[bytes]:
        """Texts of which every matching line contains one."""
        return {literal for literals in self._literals for literal in literals}

    def numbers(self, template: bytes) -> tuple[int, ...]:
        """The patterns that lines with these letters may match, by their numbers."""
        by_cue = self._by_cue.items()
        return tuple(sorted({n for cue, numbers in by_cue if cue in template for n in numbers}))

    def possible(self, numbers: Iterable[int], row: bytes) -> tuple[int, ...]:
        """Those of the patterns of which the row contains a literal."""
        literals = self._literals
        return tuple(n for n in numbers if any(literal in row for literal in literals[n]))

    def matches(self, template: bytes, text: str) -> Iterator[tuple[LinePattern, re.Match[str]]]:
        """The patterns that match a line with these letters, in their order."""
        return self.matches_of(self.numbers(template), text)

    def matches_of(
        self, numbers: Iterable[int], text: str
    ) -> Iterator[tuple[LinePattern, re.Match[str]]]:
        """Those of the patterns that match the line, in their order."""
        for number in numbers:
            pattern = self._patterns[number]
            if match := self._search(pattern.expression).search(text):
                yield pattern, match

    def match_any(self, numbers: Iterable[int], row: bytes) -> bool:
        """Whether one of the patterns matches a row as it stands."""
        return any(True for _ in self.matches_of(numbers, row.decode(errors="replace")))

    def _search(self, expression: str) -> re.Pattern[str]:
        """The expression, compiled when a line first needs it."""
        if expression not in self._compiled:
            self._compiled[expression] = re.compile(expression)
        return self._compiled[expression]


@cache
def literals_of(expression: str) -> tuple[str, ...]:
    """Texts of which every matching line contains one. Raises ValueError if one is too short."""
    parsed = parser.parse(expression)
    literals = _required(parsed)
    if not literals or _shortest(literals) < SHORTEST or parsed.state.flags & re.IGNORECASE:
        raise ValueError(f"the expression requires no literal of {SHORTEST} letters: {expression}")
    return tuple(literals)


def _required(sequence: Sequence[Any]) -> list[str] | None:
    """Literals of which every match contains one: the best of the alternatives in a sequence."""
    options: list[list[str]] = []
    run = ""
    for opcode, argument in sequence:
        if opcode is opcodes.LITERAL:
            run += chr(argument)
            continue
        options.append([run])
        run = ""
        if (inner := _inside(opcode, argument)) is not None:
            options.append(inner)
    options.append([run])
    best = max(options, key=_shortest)
    return best if _shortest(best) else None


def _shortest(literals: list[str]) -> int:
    return min(len(letters(literal)) for literal in literals)


def _inside(opcode: object, argument: Any) -> list[str] | None:
    """What a group, a repetition or a branch requires; None for nothing."""
    if opcode is opcodes.SUBPATTERN:
        return _required(argument[-1])
    if opcode is opcodes.ATOMIC_GROUP:
        return _required(argument)
    if opcode in (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT, opcodes.POSSESSIVE_REPEAT):
        return _required(argument[2]) if argument[0] else None
    if opcode is opcodes.BRANCH:
        branches = [_required(branch) for branch in argument[1]]
        if all(branches):
            return [literal for branch in branches for literal in branch or ()]
    return None
