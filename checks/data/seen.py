"""What the checks of data share: which splits were read, and from when on a share counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from typing import Unpack

from doctor.facts.data import Data, Split
from doctor.judge.check import Remedy, Status, Verdict, note, ok, skip, unknown, warn
from doctor.judge.combine import worst

FEW = 32
"""Samples below which a share is a note: 2 of 8 may be chance. Our own number."""
CLEAR, CLEARLY = 3, 0.25
"""Rows with a fault of their own, and their share, from which on fewer than FEW are enough: what a
row holds is no chance of the sample. Our own numbers."""
NOTHING = "nothing was read, see DAT018"
UNTRAINED = "no training split was given"
TEXTS = "texts were read, not their tokens: --tokenizer DIR adds them"


def each_split(data: Data, judge: Callable[[Split], Verdict]) -> Verdict:
    """The verdicts on every split, each with its name and what was read of it, as one."""
    verdicts = of_splits(data, lambda split: [judge(split)])
    return verdicts[0] if len(verdicts) == 1 else worst(*verdicts)


def of_splits(data: Data, judge: Callable[[Split], list[Verdict]]) -> list[Verdict]:
    """The same, where a split has several, apart."""
    read = [split for split in data.splits if split.rows]
    if not read:
        return [unknown(NOTHING)]
    if len(read) == 1:
        return judge(read[0])
    return [_named(split.name, verdict) for split in read for verdict in judge(split)]


def no_training(data: Data) -> Verdict:
    """Why a check of the training split has nothing: there is none, or it was not read."""
    read = any(each.rows for each in data.splits)
    return skip(UNTRAINED) if read and data.split() is None else unknown(NOTHING)


def of_tokens(judge: Callable[[Data], Verdict]) -> Callable[[Data], Verdict]:
    """A judge of tokens: of files of texts without a tokenizer one reason for all of them."""

    @wraps(judge)
    def judged(data: Data) -> Verdict:
        verdict = judge(data)
        untold = data.lacks_tokenizer and verdict.status is Status.SKIP
        return skip(TEXTS) if untold else verdict

    return judged


def _named(name: str, verdict: Verdict) -> Verdict:
    return replace(verdict, summary=f"{name}: {verdict.summary}")


def share(part: int, whole: int, of: str) -> str:
    """ "12 of 256 documents (5 %)"."""
    percent = 100 * part / whole if whole else 0.0
    return f"{part:,} of {whole:,} {of} ({percent:.0f} %)" if percent >= 1 or not part else (
        f"{part:,} of {whole:,} {of} ({percent:.1g} %)")  # fmt: skip


def observed(
    summary: str, seen: int, *, of: str = "", faulty: int = 0, **remedy: Unpack[Remedy]
) -> Verdict:
    """A warning about a share; a note where few samples were seen. `of` names what has no more of
    them, "eval has 8 rows"; `faulty` is how many rows have a fault of their own."""
    clear = faulty >= max(CLEAR, CLEARLY * seen)
    if seen < FEW and not clear:
        few = of or f"{seen} were read"
        return note(f"{summary}; {few}, and from {FEW} on it is a warning", fix=remedy.get("fix"))
    return warn(summary, **remedy)


def rows(numbers: Iterable[int], lines: bool = False) -> str:
    """ "rows 3, 17", as the loader counts them from 0; or lines as an editor counts them."""
    listed = [f"{number:,}" for number in numbers]
    word = "line" if lines else "row"
    return f"{word}{'s' * (len(listed) != 1)} {', '.join(listed)}" if listed else ""


def passed(summary: str, split: Split) -> Verdict:
    """A pass, with how much was read."""
    return ok(f"{summary}; read: {read_of(split)}")


def read_of(split: Split) -> str:
    """ "256 of 51,000 rows"."""
    if split.total is None or split.rows >= split.total:
        return f"{split.rows:,} rows"
    return f"{split.rows:,} of {split.total:,} rows"


__all__ = ["each_split", "observed", "passed", "read_of", "rows", "share", "skip"]
