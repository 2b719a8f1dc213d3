"""Expressions over the lines of a log, and the literals that every line they match contains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Compiled:
    """A pattern ready to search, and its cues: a line that matches contains one of them."""

    name: str
    search: re.Pattern[str]
    harmless: bool
    cues: tuple[bytes, ...] = field(default=())


class Gate:
    """All patterns, and the quick test whether a line's letters admit any of them."""

    def __init__(self, patterns: Iterable[LinePattern]) -> None:
        self._compiled = tuple(_compile(pattern) for pattern in patterns)
        self._by_cue: dict[bytes, list[Compiled]] = {}
        for pattern in self._compiled:
            for cue in pattern.cues:
                self._by_cue.setdefault(cue, []).append(pattern)
        # A cue within another admits all that the longer one does.
        self.cues = tuple(
            cue
            for cue in self._by_cue
            if not any(other in cue for other in self._by_cue if other != cue)
        )

    def admits(self, template: bytes) -> bool:
        """Whether a line with these letters can match a pattern."""
        return any(cue in template for cue in self.cues)

    def matches(self, template: bytes, text: str) -> Iterator[tuple[Compiled, re.Match[str]]]:
        """The patterns that match the line, in their order."""
        admitted = {
            id(pattern): pattern
            for cue, patterns in self._by_cue.items()
            if cue in template
            for pattern in patterns
        }
        for pattern in self._compiled:
            if id(pattern) in admitted and (match := pattern.search.search(text)):
                yield pattern, match


def _compile(pattern: LinePattern) -> Compiled:
    cues = cues_of(pattern.expression)
    return Compiled(pattern.name, re.compile(pattern.expression), pattern.harmless, cues)


def cues_of(expression: str) -> tuple[bytes, ...]:
    """Letters of which every matching line contains one group. Raises ValueError if too few."""
    literals = _required(parser.parse(expression))
    cues = tuple(dict.fromkeys(letters(literal) for literal in literals or ()))
    if not cues or min(map(len, cues)) < SHORTEST:
        raise ValueError(f"the expression requires no literal of {SHORTEST} letters: {expression}")
    return cues


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


def _inside(opcode: Any, argument: Any) -> list[str] | None:
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
