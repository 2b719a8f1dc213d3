"""The findings of a run and what follows from them: verdict, counts, exit code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from textwrap import shorten
from typing import TYPE_CHECKING, Literal

from doctor._util.units import counted
from doctor.facts.data import Data
from doctor.facts.facts import Facts
from doctor.judge.check import Finding, Owner, Status
from doctor.judge.known_errors import SEVERAL

if TYPE_CHECKING:
    from doctor.prescribe.context import Setting

FailOn = Literal["fail", "warn", "never"]

Tensor = tuple[str, str, list[int], str, int]
"""Name, dtype, shape, file and bytes of a tensor in a checkpoint."""


class Outcome(StrEnum):
    """What to do with this machine."""

    READY = "ready"
    FIX = "fix"
    RETURN = "return"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Report:
    """Facts and the findings over them, in display order."""

    facts: Facts
    findings: tuple[Finding, ...]
    fail_on: FailOn = "fail"
    replayed: str = ""
    """The facts file that was judged, "" for this machine."""
    selected: bool = False
    """The user selected the checks (--only): then any unknown among them counts."""
    annotate: bool = False
    """Add the limitations of every check that passed."""
    config: str = ""
    """The job file that was used, "" for none."""
    notes: tuple[str, ...] = ()
    """What was left out or not used, and why."""
    settings: tuple[Setting, ...] = ()
    """The prescription, in formats that have a place for it."""
    tensors: tuple[Tensor, ...] | None = None
    """Every tensor of the checkpoint; None where they were not asked for."""
    files: int = 0
    """Scripts that a lint read."""

    def with_status(self, status: Status) -> tuple[Finding, ...]:
        """The findings of that status, without those that the user ignores."""
        return tuple(f for f in self.findings if f.status is status and not f.ignored)

    @property
    def ignored(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.ignored)

    @property
    def counts(self) -> dict[str, int]:
        """Findings by status, and the ignored ones; each finding is counted once."""
        by_status = {str(status): len(self.with_status(status)) for status in Status}
        return {**by_status, "ignored": len(self.ignored)}

    @property
    def faults(self) -> tuple[Finding, ...]:
        """Failures that are the machine's own: with one of them it goes back."""
        failed = self.with_status(Status.FAIL)
        return tuple(f for f in failed if f.check.returns and f.owner is Owner.MACHINE)

    @property
    def outcome(self) -> Outcome:
        """RETURN only for a device or driver observed to be at fault or not the expected one.

        UNKNOWN only for checks that are required.
        """
        if self.faults:
            return Outcome.RETURN
        if self.with_status(Status.FAIL):
            return Outcome.FIX
        evaluated = any(map(self.with_status, (Status.PASS, Status.NOTE, Status.WARN)))
        return Outcome.READY if evaluated and self._blocking is None else Outcome.UNKNOWN

    @property
    def _blocking(self) -> Finding | None:
        """The first unknown that leaves the run without a verdict."""
        unknowns = self.with_status(Status.UNKNOWN)
        return unknowns[0] if self.selected and unknowns else next(iter(self._needed), None)

    @property
    def _needed(self) -> list[Finding]:
        """Unknown checks without which a machine is not ready."""
        job, options = self.facts.job, self.facts.options
        unknowns = self.with_status(Status.UNKNOWN)
        return [each for each in unknowns if each.check.is_required(job, options)]

    @property
    def exit_code(self) -> int:
        """0 nothing at or above `fail_on`; 1 something is; 3 the verdict is UNKNOWN."""
        if self.fail_on == "never":
            return 0
        gates = (Status.FAIL,) if self.fail_on == "fail" else (Status.FAIL, Status.WARN)
        if any(self.with_status(status) for status in gates):
            return 1
        return 3 if self.outcome is Outcome.UNKNOWN else 0

    @property
    def headline(self) -> str:
        """The verdict in words: READY, READY with warnings, FIX, RETURN or UNKNOWN."""
        is_ready = self.outcome is Outcome.READY
        warned = self.with_status(Status.WARN) if is_ready else self._leading_warnings
        noted = not warned and bool(self._pasted_note)
        return self.outcome.upper() + " with warnings" * bool(warned) + " with a note" * noted

    @property
    def _is_pasted(self) -> bool:
        return self.outcome is Outcome.UNKNOWN and self.facts.is_pasted

    @property
    def _shown(self) -> tuple[Finding, ...]:
        return (*self.with_status(Status.PASS), *self.with_status(Status.NOTE))

    @property
    def _not_shown(self) -> str:
        """Some of what is needed for a verdict, and how many other checks are unknown."""
        named = [each.check.slug for each in self._needed[:3]]
        others = len(self.with_status(Status.UNKNOWN)) - len(named)
        return ", ".join(named) + f" and {others} more" * bool(others)

    @property
    def _leading_warnings(self) -> tuple[Finding, ...]:
        """What a pasted report or a checkpoint warns of, where something else is unknown."""
        leads = self._is_pasted or self.facts.subject == "checkpoint"
        return self.with_status(Status.WARN) if leads else ()

    @property
    def _pasted_note(self) -> tuple[Finding, ...]:
        """An error of the program that a pasted report contains, where nothing else is wrong."""
        noted = self.with_status(Status.NOTE) if self._is_pasted else ()
        return tuple(each for each in noted if each.check.leads)

    @property
    def next_action(self) -> str:
        """What follows the headline: the codes that matter and the first thing to do."""
        match self.outcome:
            case Outcome.READY:
                return self._ready()
            case Outcome.UNKNOWN:
                if said := self._leading_warnings or self._pasted_note:
                    return _first_fix(said)
                finding = self._blocking or next(iter(self.with_status(Status.UNKNOWN)), None)
                if finding is None:
                    return "no check was evaluated: all selected checks were skipped or ignored"
                if self._is_pasted and not self.selected and (shown := len(self._shown)):
                    return (
                        f"no fault in what the report shows ({counted(shown, 'check')}); "
                        f"not in it: {self._not_shown}"
                    )
                check, verdict = finding.check, finding.verdict
                return f"{check.code} {check.slug}: {verdict.summary}"
            case Outcome.RETURN | Outcome.FIX if self.facts.subject == "fleet":
                return _observed((self.faults or self.with_status(Status.FAIL))[0])
            case Outcome.RETURN:
                return f"{_observed(_leading(self.faults))}; {GIVE_BACK}"
        return _first_fix(self.with_status(Status.FAIL))

    @property
    def verdict_line(self) -> str:
        """The headline and the next action: "READY: all checks passed"."""
        return f"{self.headline}: {self.next_action}"

    def _ready(self) -> str:
        unknowns = self.with_status(Status.UNKNOWN)
        if warned := _warnings(self.with_status(Status.WARN)):
            gated = " (exit code 1: --fail-on warn)" * bool(self.exit_code)
            return f"{warned}{gated}" + (f"; unknown: {_codes(unknowns)}" if unknowns else "")
        exceptions = {"unknown": unknowns, "ignored": self.ignored}
        listed = "; ".join(
            f"{word}: {_codes(group)}" for word, group in exceptions.items() if group
        )
        noted = _codes(self.with_status(Status.NOTE))
        alone = "checkpoint " * (self.facts.subject == "checkpoint")
        ready = f"no problems found ({listed})" if listed else f"all {alone}checks passed"
        data = self.facts.data if self.facts.subject == "data" else None
        if isinstance(data, Data) and data.lacks_tokenizer:
            ready = f"{ready}; {UNTOKENIZED}"
        return f"{ready}; worth reading: {noted}" if noted else ready


GIVE_BACK = "rented: give the machine back now (text for the provider: --format letter)"
"""What RETURN means; what an owner may try is the fix of the finding."""
UNTOKENIZED = "texts alone were judged, not tokens, template and labels: --tokenizer DIR adds them"
NEEDS_MORE = ("Look at ", "Cause not known.")
"""How a fix begins whose first sentence alone is no next step."""


def _leading(findings: Sequence[Finding]) -> Finding:
    """The first one, or one that leads before it."""
    return next((each for each in findings if each.check.leads), findings[0])


def _first_fix(findings: Sequence[Finding]) -> str:
    """The code of the first one, or of one that leads with its cause, and the first sentence of its
    fix, with a place or without a cause also the second; of an error with several causes the
    error."""
    first = _leading(findings)
    line = first.fix.split("\n")[0]
    if line == SEVERAL:
        return _observed(first)
    sentences = re.split(r"(?<=\.) ", line)
    sentence = " ".join(sentences[: 1 + line.startswith(NEEDS_MORE)]).rstrip(".:")
    cause = next(iter(first.verdict.causes), "") if first.check.leads else ""
    name = f"{cause} ({first.check.code})" if cause else first.check.code
    return f"{name}: {shorten(sentence, 240, placeholder=' ...')}"


def _observed(finding: Finding) -> str:
    """Its code and what was observed: of several nodes the names matter, not the fix."""
    return f"{finding.check.code}: {shorten(finding.verdict.summary, 240, placeholder=' ...')}"


def _warnings(findings: Sequence[Finding]) -> str:
    """The only warning with what was observed, several by their names."""
    if len(findings) == 1:
        check, verdict = findings[0].check, findings[0].verdict
        return f"{check.code} {check.slug}: {shorten(verdict.summary, 240, placeholder=' ...')}"
    return ", ".join(f"{each.check.code} {each.check.slug}" for each in findings)


def _codes(findings: Iterable[Finding]) -> str:
    return ", ".join(finding.check.code for finding in findings)
