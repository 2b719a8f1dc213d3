"""What a row may be: by the texts that it contains, and by its letters, which rows share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from doctor.log import launcher, tracebacks, versions
from doctor.log.lines import LONGEST
from doctor.log.metrics.text import SUMMARY, is_metric_row, is_nonfinite_row
from doctor.log.patterns import Gate
from doctor.log.templates import letters_of

REMEMBERED = 8 << 20
"""Bytes of templates that are remembered."""
BY_LIBRARY = (
    SUMMARY, b"`trainer.fit` stopped: `max_", b"worker group successfully finished",
    b"final validation metrics", b"training progress: 100%", b"loading best model from ",
)  # fmt: skip
"""Texts, in lower case, that a library prints when a training ended well."""
NO_TRAINING = b"=0` reached"
"""Lightning's end where max_epochs or max_steps is 0: nothing was trained."""
BY_SCRIPT = (b"training complete", b"training finished", b"finished training", b"training done")
"""What scripts print: a shell's echo also follows a program that failed."""
LAST_VALUES, MOST_BEFORE = b"wandb: ", 60
"""What stands before the values that W&B prints once more when a program ends, however it ends, and
the bytes before that which a launcher may write."""
NOT_WELL = re.compile(
    rb"(?:status|code|rc|exit\w{0,3})\W{0,4}[1-9]|fail|error|abort|kill|interrupt"
)


CUES = (*tracebacks.CUES, *tracebacks.BARE_CUES, launcher.CUE)


class Kind(Enum):
    """What a row may be."""

    OTHER = 0
    METRIC = 1
    NONFINITE = 2
    CANDIDATE = 3
    VERSION = 4
    FINISHED = 5
    ENDED_WELL = 6


@dataclass(frozen=True, slots=True)
class _Known:
    """What follows from the letters of a row."""

    patterns: tuple[int, ...]
    is_version: bool


class Kinds:
    """The kinds of rows in all files; what follows from their letters is remembered."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._known: dict[bytes, _Known] = {}
        self._size = 0

    def of(self, row: bytes) -> tuple[Kind, tuple[int, ...]]:
        """The kind of a row, and the numbers of the patterns that may match it."""
        known = self._known_of(letters_of(row[:LONGEST]))
        head = row[:LONGEST]
        patterns = self.gate.possible(known.patterns, head) if known.patterns else ()
        lower = row.lower()
        ends = any(cue in lower for cue in BY_LIBRARY) and NO_TRAINING not in lower
        if patterns and (ends or is_metric_row(lower)) and not self.gate.match_any(patterns, head):
            patterns = ()  # "(RayTrainWorker pid=9) loss 0.3" has but a literal of a class
        if patterns or any(cue in head for cue in CUES):
            return Kind.CANDIDATE, patterns
        if ends:
            return Kind.ENDED_WELL, ()
        if b"epoch" not in lower and any(cue in lower for cue in BY_SCRIPT):
            return (Kind.OTHER if NOT_WELL.search(lower) else Kind.FINISHED), ()
        if is_metric_row(lower) and LAST_VALUES not in row[:MOST_BEFORE]:
            return Kind.NONFINITE if is_nonfinite_row(lower) else Kind.METRIC, ()
        return Kind.VERSION if known.is_version else Kind.OTHER, ()

    def _known_of(self, template: bytes) -> _Known:
        known = self._known.get(template)
        if known is None:
            if self._size > REMEMBERED:
                self._known.clear()
                self._size = 0
            known = _Known(self.gate.numbers(template), versions.may_name_one(template))
            self._known[template] = known
            self._size += len(template) + 200
        return known
