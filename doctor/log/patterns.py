"""Expressions over the lines of a log, and the literals that every line they match contains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
        for number, pattern in enumerate(self._patterns):
            for cue in cues_of(pattern.expression):
                self._by_cue.setdefault(cue, []).append(number)
        # A cue within another admits all that the longer one does.
        self.cues = tuple(
            cue
            for cue in self._by_cue
            if not any(other in cue for other in self._by_cue if other != cue)
        )

    def admitted(self, templates: Sequence[bytes]) -> set[bytes]:
        """Those of the templates whose lines can match a pattern."""
        joined = b"\n".join(templates)  # one search for many: a cue rarely occurs at all
        cues = [cue for cue in self.cues if cue in joined]
        if not cues:
            return set()
        return {template for template in templates if any(cue in template for cue in cues)}

    def matches(self, template: bytes, text: str) -> Iterator[tuple[LinePattern, re.Match[str]]]:
        """The patterns that match the line, in their order."""
        admitted = {
            number for cue, numbers in self._by_cue.items() if cue in template for number in numbers
        }
        for number in sorted(admitted):
            pattern = self._patterns[number]
            if match := self._search(pattern.expression).search(text):
                yield pattern, match

    def _search(self, expression: str) -> re.Pattern[str]:
        """The expression, compiled when a line first needs it."""
        if expression not in self._compiled:
            self._compiled[expression] = re.compile(expression)
        return self._compiled[expression]


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
