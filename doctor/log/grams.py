"""Four bytes of each text that gives a row away: where none of them is, no row matters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntFlag
from itertools import product

from doctor.log import tracebacks, versions
from doctor.log.kinds import FINISHED
from doctor.log.patterns import Gate

SIZE = 4
BEFORE_NONFINITE = (": ", "= ", "  ", *"\t:='\"(+-")
"""What stands before a NaN that is a value."""
RARE_FIRST = (
    "XQJZVKWYGUPFMHBDRCLNSTIOAE[]()`'*\"/|<>#!&%qzjx_kv0123456789.:-wbygpfmudhclrnsioate ,="
)
"""Characters as they are in logs, the rarest first; other characters are rarer still."""
COMMON = (
    "NCCL INFO CUDA cuda WARNING Warning: RuntimeError: ProcessGroupNCCL.cpp torch distributed "
    "transformers model training checkpoint gradient 2026-11-20 ranks rank0 Error: Exception "
    "File line for device error tokenizer with Connection Worker worker not the and /usr/lib/python"
)
"""Four bytes of these words are in many rows that do not matter."""


class Mark(IntFlag):
    """What a row that contains certain four bytes may be."""

    UNCLEAR = 1
    METRIC = 2
    NONFINITE = 4
    """Only together with METRIC."""
    UNCLEAR_UNLESS_METRIC = 8


def marks_of(gate: Gate) -> dict[bytes, Mark]:
    """Four bytes -> what a row that contains them may be."""
    marks: dict[bytes, Mark] = {}
    for mark, grams in (
        (Mark.UNCLEAR, map(rarest, _decisive(gate))),
        (Mark.METRIC, _cases("loss")),
        (Mark.NONFINITE, _nonfinite()),
        (Mark.UNCLEAR_UNLESS_METRIC, _perhaps()),
    ):
        for gram in grams:
            marks[gram] = marks.get(gram, Mark(0)) | mark
    return marks


def _decisive(gate: Gate) -> Iterator[bytes]:
    yield from gate.literals
    yield from tracebacks.CUES
    for cue in FINISHED:
        yield from (cue, cue.upper(), cue.title(), cue.capitalize())


def _nonfinite() -> Iterator[bytes]:
    for before, word in product(BEFORE_NONFINITE, (*_cases("nan"), *_cases("inf"))):
        yield (before.encode() + word)[:SIZE]


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


def rarest(text: bytes) -> bytes:
    """The four bytes in a row of a text that are in the fewest rows which do not contain it."""
    return min(_grams(text), key=_commonness)


def _grams(text: bytes) -> Iterable[bytes]:
    return [text[at : at + SIZE] for at in range(len(text) - SIZE + 1)]


def _commonness(gram: bytes) -> tuple[bool, int]:
    text = gram.decode("latin-1")
    return text in COMMON, sum(RARE_FIRST.find(character) for character in text)
