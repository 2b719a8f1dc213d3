"""Patterns in memory: every place has its own word, and a word that changed is found."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch  # noqa: TID253 - the patterns are those of the probe

from doctor.probes.training_side.load import memory_test

ROOM = 4 * 2**20
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def stage(name: str) -> Iterator[None]:
        yield

    monkeypatch.setattr(memory_test.wire, "stage", stage)


class Deadline:
    """One that passes after some looks at it."""

    def __init__(self, looks: int = 10**9) -> None:
        self.looks = looks

    def reason(self) -> str:
        self.looks -= 1
        return "90 s had passed" if self.looks < 0 else ""


def memory(part: int = 2**13) -> Any:
    return memory_test.Memory(CPU, ROOM, part)


def written(pattern: tuple[int, int]) -> Any:
    filled = memory()
    filled.begin(pattern)
    assert list(filled.write(pattern)) == [None] * len(filled.parts)
    return filled


def test_every_place_has_its_own_word_and_every_bit_is_once_0_and_once_1() -> None:
    first, second = (torch.cat(written(each).parts) for each in memory_test.PATTERNS[:2])
    assert len(first.unique()) == len(first)
    assert bool((first == ~second).all())


def test_a_share_of_the_free_memory_is_taken() -> None:
    filled = memory()
    beside = memory_test.BESIDE * filled.part * memory_test.WORD
    assert 0.8 * ROOM < filled.bytes <= memory_test.SHARE * ROOM - beside
    assert memory_test.Memory(CPU, 1000).parts == []


def test_intact_memory_keeps_all_patterns() -> None:
    filled = memory()
    result = memory_test.tried(filled, Deadline())
    assert result == {"patterns": 4, "tried": filled.bytes, "wrong": 0}


@pytest.mark.parametrize("pattern", memory_test.PATTERNS)
def test_a_flipped_bit_is_found_at_its_place(pattern: tuple[int, int]) -> None:
    filled = written(pattern)
    filled.parts[3][77] ^= 1 << 40
    assert [int(count) for count in filled.compare(pattern)].index(1) == 3
    count, text = filled.again(3, pattern)
    assert count == 1
    assert f"byte {(3 * filled.part + 77) * 8} of" in text
    filled.parts[3][77] ^= 1 << 40
    assert filled.again(3, pattern) == (0, "")


def test_an_address_that_stands_for_two_places_is_found() -> None:
    filled = memory()
    filled.parts[5] = filled.parts[2]
    result = memory_test.tried(filled, Deadline())
    assert result["wrong"] == filled.part
    assert result["wrong_again"] == filled.part
    assert result["patterns"] == 0


@pytest.mark.parametrize(("looks", "tried"), [(0, 0), (3, 16 * 2**10 * 8)])
def test_the_deadline_ends_it_and_what_was_compared_counts(looks: int, tried: int) -> None:
    filled = memory(2**10)
    every = memory_test.EVERY
    while_writing = len(filled.parts) // every
    result = memory_test.tried(filled, Deadline(looks and while_writing))
    assert result["cut_short"] == "90 s had passed"
    assert result["tried"] == tried
    assert result.get("wrong", 0) == 0
