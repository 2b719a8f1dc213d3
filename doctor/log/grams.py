"""Four bytes of each text that gives a row away: where none of them is, no row matters."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from itertools import product

import msgspec

from doctor.log import versions
from doctor.log.kinds import BY_LIBRARY, BY_SCRIPT, CUES, LAST_VALUES
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
    "memory data while node loss scale: grad norm: learning rate: 'learning_rate': 'grad_norm': "
    "'epoch': consumed samples: elapsed time per iteration (ms): global batch size: number of "
    "skipped iterations: "
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
    """Four bytes, what they mark a row as, and the texts that they must be in for that."""

    text: bytes
    mark: Mark
    within: tuple[tuple[int, bytes], ...] = ()
    """Texts, each after the offset of the four bytes in it: one must be there; () if none need."""


def grams_of(gate: Gate) -> list[Gram]:
    """What to look for; each text occurs once."""
    marks: dict[bytes, Mark] = {}
    within: dict[bytes, set[tuple[int, bytes]]] = {}
    for text in _decisive(gate):
        gram = _rarest(text)
        marks[gram] = Mark.UNCLEAR
        within.setdefault(gram, set()).add((text.find(gram), text))
    for mark, grams in (
        (Mark.METRIC, _cases("loss")),
        (Mark.NONFINITE, _nonfinite()),
        (Mark.UNCLEAR_UNLESS_METRIC, _perhaps()),
    ):
        for gram in grams:
            within.pop(gram, None)
            marks[gram] = marks.get(gram, Mark(0)) | mark
    return [Gram(text, mark, tuple(within.get(text, ()))) for text, mark in marks.items()]


def _decisive(gate: Gate) -> Iterator[bytes]:
    yield from gate.literals
    yield from (*CUES, LAST_VALUES)
    for cue in (*BY_LIBRARY, *BY_SCRIPT):
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


def _rarest(text: bytes) -> bytes:
    """The four bytes of a text that are in the fewest rows without it."""
    grams = [text[at : at + SIZE] for at in range(len(text) - SIZE + 1)]
    return min(grams, key=_commonness)


def _commonness(gram: bytes) -> tuple[bool, int]:
    text = gram.decode("latin-1")
    return text in COMMON, sum(RARE_FIRST.find(character) for character in text)
