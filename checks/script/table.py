"""All rules, by code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from re import _constants as opcodes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

from doctor.checks.script import (
    config,
    data,
    distributed,
    kinds,
    loop,
    loss,
    metrics,
    model,
    raising,
    saving,
    trainers,
)
from doctor.checks.script.rule import CODE, Rule
from doctor.checks.script.training import LEARNS, WORDS

SUBJECTS = (config, data, distributed, kinds, loop, loss, metrics, model, raising, saving, trainers)
RULES: tuple[Rule, ...] = tuple(
    sorted((rule for each in SUBJECTS for rule in each.RULES), key=lambda rule: rule.code)
)
BY_CODE = {rule.code: rule for rule in RULES}
FIXES = {rule.code: rule.fixes for rule in RULES if rule.fixes is not None}


@dataclass(frozen=True, slots=True)
class Words:
    """Expressions of which one occurs in every Python file that a rule may fire in."""

    expressions: tuple[tuple[bytes, bytes], ...]
    """Each behind the longest text that it requires: most files are ruled out by these alone."""

    def search(self, data: bytes) -> bool:
        """Whether one of them occurs."""
        return any(text in data and re.search(word, data) for text, word in self.expressions)


def relevant(rules: Iterable[Rule]) -> Words:
    """What occurs in every Python file that one of the rules may fire in."""
    words: set[str] = set()
    for rule in rules:
        if not set(CODE).isdisjoint(rule.kinds):
            words.update(rule.words or (WORDS if rule.training else (*WORDS, *LEARNS)))
    common_first = sorted(words, key=lambda word: (word not in WORDS, word))
    return Words(tuple((_longest_text(word), word.encode()) for word in common_first))


def _longest_text(expression: str) -> bytes:
    """The longest text outside groups that every match contains, b"" where there is none."""
    texts = [""]
    for opcode, argument in parser.parse(expression):
        if opcode is opcodes.LITERAL:
            texts[-1] += chr(argument)
        else:
            texts.append("")
    return max(texts, key=len).encode()


RELEVANT = relevant(RULES)
