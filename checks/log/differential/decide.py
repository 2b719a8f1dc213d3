"""The first row whose evidence holds, and what it says of a finding."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from doctor.checks.log.differential import failures, learning_rows, training_rows
from doctor.checks.log.differential.row import Differential, Evidence, cited
from doctor.checks.log.differential.run import Run
from doctor.errors.cause import Cause, with_words
from doctor.errors.causes import BY_ID
from doctor.facts.log import Log
from doctor.judge.check import Verdict
from doctor.judge.place import Place

ROWS = (*training_rows.ROWS, *learning_rows.ROWS, *failures.ROWS)
LOOKED_AT = (
    "learning_rate", "warmup_steps", "warmup_ratio", "batch_size", "accumulation", "clip", "fp16",
    "bf16", "weight_decay", "lora_rank", "lora_alpha", "beta", "seq_length", "workers", "epochs",
    "rows", "schedule_steps", "dropout",
)  # fmt: skip
"""Settings that a finding names where none of them decides, the most telling first."""
MOST = 6


@dataclass(frozen=True, slots=True)
class Decision:
    """A row that holds."""

    row: Differential
    evidence: Evidence

    @property
    def cause(self) -> Cause:
        return BY_ID[self.row.id]

    @property
    def fix(self) -> str:
        cause = self.cause
        return with_words(cause.template, self.evidence.words) or cause.fix

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(
            Place(
                path=each.path, line=each.line, text=f"{each.name} {each.text}", message=self.row.id
            )
            for each in self.evidence.settings
            if each.line
        )

    def added_to(self, verdict: Verdict) -> Verdict:
        """The verdict with the cause that is decided, its remedy and its places."""
        sentence = f"; {self.evidence.sentence}" if self.evidence.sentence else ""
        return replace(
            verdict,
            summary=f"({self.row.id}) {verdict.summary}{sentence}",
            fix=self.fix,
            sources=tuple(dict.fromkeys((*verdict.sources, *self.cause.sources))),
            places=(*verdict.places, *self.places),
            causes=(self.row.id, *verdict.causes),
        )


def decided(log: Log, symptoms: Collection[str], path: str) -> Decision | None:
    """The cause of these symptoms that the settings of a file decide."""
    rows = (row for row in ROWS if set(row.symptoms) & set(symptoms))
    return next(_held(rows, log, path), None)


def decided_by_far(log: Log, symptom: str, path: str) -> Decision | None:
    """The same by rows of settings far outside of what is usual."""
    rows = (row for row in ROWS if symptom in row.suffices)
    return next((each for each in _held(rows, log, path) if each.evidence.is_far), None)


def _held(rows: Iterable[Differential], log: Log, path: str) -> Iterator[Decision]:
    run = Run(log, path)
    for row in rows if log.stated else ():
        if (found := row.evidence(run)) is not None:
            yield Decision(row, found)


def looked_at(log: Log, symptoms: Collection[str], path: str) -> str:
    """Which settings were looked at where none decides; "" where no row is about the symptoms."""
    if not any(set(row.symptoms) & set(symptoms) for row in ROWS):
        return ""
    run = Run(log, path)
    named = [found for name in LOOKED_AT if (found := run.setting(name)) is not None][:MOST]
    if not named:
        return ""
    return f"The log states {', '.join(map(cited, named))}; none of them decides."
