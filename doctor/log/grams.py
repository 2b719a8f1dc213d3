"""Four bytes of each text that gives a row away: where none of them is, no row matters."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from itertools import product

import msgspec

from doctor.log import tracebacks, versions
from doctor.log.kinds import FINISHED
from doctor.log.metrics.text import BEFORE_NONFINITE
from doctor.log.patterns import Gate

SIZE = 4
RARE_FIRST = (
    "XQJZVKWYGUPFMHBDRCLNSTIOAE[]()`'*\"/|<>#!&%qzjx_kv0123456789.:-wbygpfmudhclrnsioate ,="
)
"""Characters as they are in logs, the rarest first; other characters are rarer still."""
COMMON = (
    "NCCL INFO CUDA cuda WARNING Warning: RuntimeError: ProcessGroupNCCL.cpp torch distributed "
    "transformers model training checkpoint gradient 2026-11-20 ranks rank0 Error: Exception "
    "File line for device error tokenizer with Connection Worker worker not the and /usr/lib "
    "memory data while node "
)
"""Four bytes of these words are in many rows that do not matter."""


class Mark(IntFlag):
    """What a row that contains certain four bytes may be."""

    UNCLEAR = 1
    METRIC = 2
    NONFINITE = 4
    """Only together with METRIC."""
    UNCLEAR_UNLESS_METRIC = 8


class Gram(msgspec.Struct, array_like=True, frozen=True):
    """Four bytes, what they mark a row as, and what else they must stand beside for that."""

    text: bytes
    mark: Mark
    beside: tuple[tuple[int, bytes], ...] = ()
    """Offset from these four bytes -> four others, any of which confirms them; () if none need."""


def grams_of(gate: Gate) -> list[Gram]:
    """What to look for; each text occurs once."""
    marks: dict[bytes, Mark] = {}
    beside: dict[bytes, set[tuple[int, bytes]]] = {}
    for text in _decisive(gate):
        gram, *confirming = _rarest_two(text)
        marks[gram] = Mark.UNCLEAR
        beside.setdefault(gram, set()).update(
            (text.find(other) - text.find(gram), other) for other in confirming or (gram,)
        )
    for mark, grams in (
        (Mark.METRIC, _cases("loss")),
        (Mark.NONFINITE, _nonfinite()),
        (Mark.UNCLEAR_UNLESS_METRIC, _perhaps()),
    ):
        for gram in grams:
            beside.pop(gram, None)
            marks[gram] = marks.get(gram, Mark(0)) | mark
    return [Gram(text, mark, tuple(beside.get(text, ()))) for text, mark in marks.items()]


def _decisive(gate: Gate) -> Iterator[bytes]:
    yield from gate.literals
    yield from tracebacks.CUES
    for cue in FINISHED:
        yield from (cue, cue.upper(), cue.title(), cue.capitalize())


def _nonfinite() -> Iterator[bytes]:
    for before, word in product(BEFORE_NONFINITE, ("nan", "inf")):
        yield from _cases((before + word)[:SIZE])


def _perhaps() -> Iterator[bytes]:
    """A gradient norm alone, and the version of a package."""
    yield from _cases("d_no")
    yield from _cases("rsio")
    for name, case in product(versions.PACKAGES, (str.lower, str.upper)):
        end = case(name)
        for separator, after in product((" ", "=", ":"), " =:v0123456789"):
            yield (end[-2:] + separator + after).encode()


def _cases(text: str) -> Iterator[bytes]:
    """The text in every mix of capitals and small letters."""
    choices = [sorted({letter.lower(), letter.upper()}) for letter in text]
    yield from ("".join(letters).encode() for letters in product(*choices))


def _rarest_two(text: bytes) -> list[bytes]:
    """The four bytes of a text that are in the fewest rows without it, and four others of it."""
    grams = _grams(text)
    first = min(grams, key=_commonness)
    at = text.find(first)
    others = [gram for gram in grams if abs(text.find(gram) - at) >= SIZE] or grams
    return list(dict.fromkeys((first, min(others, key=_commonness))))


def _grams(text: bytes) -> list[bytes]:
    return [text[at : at + SIZE] for at in range(len(text) - SIZE + 1)]


def _commonness(gram: bytes) -> tuple[bool, int]:
    text = gram.decode("latin-1")
    return text in COMMON, sum(RARE_FIRST.find(character) for character in text)
