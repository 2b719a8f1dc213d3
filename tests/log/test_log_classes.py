"""The table of log classes: each pattern matches its examples and nobody else's, and is linear."""

from __future__ import annotations

import random
import re
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor import catalog
from doctor.checks.log.classes import CLASSES, HARMLESS
from doctor.checks.log.patterns import line_patterns
from doctor.judge.sources import SOURCES
from doctor.log.patterns import Gate, LinePattern, literals_of, with_words_of
from doctor.log.templates import letters

GATE = Gate(line_patterns())
EXAMPLES = [(row.id, example) for row in CLASSES for example in row.examples]
EXAMPLES += [(row.id, example) for row in HARMLESS for example in row.examples]
PATTERNS = [(row.id, pattern) for row in CLASSES for pattern in row.messages]
PATTERNS += [(row.id, pattern) for row in HARMLESS for pattern in row.messages]


def named(line: str) -> list[str]:
    return [pattern.name for pattern, _ in GATE.matches(letters(line), line)]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_an_example_is_of_its_class(name: str, example: str) -> None:
    assert named(example)[0] == name
    assert name in [pattern.name for pattern in with_words_of(example, line_patterns())]
    assert GATE.numbers(letters(example))


def test_an_example_matches_no_other_class_but_a_launchers_summary() -> None:
    for name, example in EXAMPLES:
        assert set(named(example)) <= {name, "launcher-summary", *ALSO.get(name, ())}, example


ALSO = {
    "bitsandbytes-setup": {"extension-abi-mismatch"},  # its library lacks a symbol
    "dataloader-worker-killed": {"segmentation-fault"},  # of a worker
    "cudnn-sdpa-nan": {"nan-in-backward"},  # one function of many
    "peer-lost": {"rendezvous-timeout"},  # of a node that had joined before
    "scaler-collapse": {"first-overflows"},  # the last overflow of many
    "shm-bus-error": {"disk-full", "nccl-error"},  # the file system of /dev/shm
    "weights-not-loaded": {"new-head"},  # layers, not only a head
}
"""Special cases of other classes; they come first in the table."""


def test_every_pattern_has_an_example() -> None:
    by_name: dict[str, list[str]] = {}
    for name, example in EXAMPLES:
        by_name.setdefault(name, []).append(example)
    for name, pattern in PATTERNS:
        assert any(re.search(pattern, example) for example in by_name[name]), pattern


def test_every_class_is_a_check_with_a_fix_and_a_reason() -> None:
    assert len({row.code for row in CLASSES}) == len(CLASSES)
    assert len({row.id for row in CLASSES}) == len(CLASSES)
    for row in CLASSES:
        (check,) = catalog.find(row.id)
        assert check.code == row.code
        assert row.fix
        assert row.why
        assert not row.next_check or catalog.find(row.next_check)
    assert not {row.id for row in HARMLESS} & {row.id for row in CLASSES}


def hostile(pattern: str) -> list[str]:
    """Lines that make a pattern begin to match at many positions."""
    words = re.sub(r"\\(.)|\(\?P<\w+>|\(\?:|[()?*+{}]|\[[^]]*\]", r"\1", pattern).split("|")
    parts = [word[: len(word) // 2] for word in words if len(word) > 8] or ["a"]
    return [*parts[:6], *(word[:-1] + " " for word in words[:4] if len(word) > 8)]


def seconds(expression: re.Pattern[str], unit: str, size: int) -> float:
    """Of the processor, which other processes do not add to."""
    text = unit * (size // len(unit))
    began = time.thread_time()
    expression.search(text)
    return time.thread_time() - began


@pytest.mark.slow
def test_every_pattern_is_linear() -> None:
    """Eight times the text takes at most some thirty times as long; quadratic is sixty-four."""
    for name, pattern in PATTERNS:
        expression = re.compile(pattern)
        for unit in hostile(pattern):
            if seconds(expression, unit, 50_000) < 0.02:
                continue
            ratios = (
                seconds(expression, unit, 400_000) / seconds(expression, unit, 50_000)
                for _ in range(5)
            )
            assert any(ratio < 30 for ratio in ratios), (name, pattern, unit)


@given(st.text(alphabet=string.ascii_letters + " _-0129", min_size=5, max_size=40))
def test_a_gate_admits_every_line_that_contains_a_literal(literal: str) -> None:
    if len(letters(literal)) < 4:
        return
    gate = Gate([LinePattern("any", re.escape(literal))])
    line = f"12:00:01 [rank3] {literal}, 3.5e-05"
    assert gate.numbers(letters(line))
    assert [pattern.name for pattern, _ in gate.matches(letters(line), line)] == ["any"]


def test_the_cues_of_an_expression_are_in_every_line_that_it_matches() -> None:
    chance = random.Random(0)
    for name, pattern in PATTERNS:
        cues = [letters(literal) for literal in literals_of(pattern)]
        for other, example in EXAMPLES:
            noisy = "".join(chance.choice(string.digits) for _ in range(9)) + example
            if other == name and re.search(pattern, noisy):
                assert any(cue in letters(noisy) for cue in cues), (pattern, noisy)


@pytest.mark.parametrize("expression", [r"\d+", r"abc|\w+", r"(?:abcdef)?x"])
def test_an_expression_without_letters_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="literal"):
        literals_of(expression)


def test_every_class_cites_a_public_source() -> None:
    assert [row.id for row in CLASSES if not row.sources] == []
    for row in CLASSES:
        assert any(SOURCES[name].url.startswith("https://") for name in row.sources) or any(
            SOURCES[name].document for name in row.sources
        )
