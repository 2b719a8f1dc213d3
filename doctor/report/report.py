"""The findings of a run and what follows from them: verdict, counts, exit code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from textwrap import shorten
from typing import TYPE_CHECKING, Literal

from doctor.facts.facts import Facts
from doctor.judge.check import Finding, Owner, Status

if TYPE_CHECKING:
    from doctor.prescribe.context import Setting

FailOn = Literal["fail", "warn", "never"]


class Outcome(StrEnum):
    """What to do with this machine."""

    READY = "ready"
    FIX = "fix"
    RETURN = "return"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Report:
    """Facts and the findings over them, in the order in which they are shown."""

    facts: Facts
    findings: tuple[Finding, ...]
    fail_on: FailOn = "fail"
    replayed: str = ""
    """The facts file that was judged, "" for this machine."""
    chosen: bool = False
    """The user named the checks (--only): then an unknown among them counts."""
    annotate: bool = False
    """Say of every check that passed what a pass does not prove."""
    config: str = ""
    """The job file that was used, "" for none."""
    notes: tuple[str, ...] = ()
    """What was left out or not used, and why."""
    prescribed: tuple[Setting, ...] = ()
    """Settings to train with, where they were asked for."""

    def with_status(self, status: Status) -> tuple[Finding, ...]:
        """Those that count: not the ones that the user ignores."""
        return tuple(f for f in self.findings if f.status is status and not f.ignored)

    @property
    def ignored(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.ignored)

    @property
    def counts(self) -> dict[str, int]:
        """Findings by status, and the ignored ones: each stands in one of them."""
        by_status = {str(status): len(self.with_status(status)) for status in Status}
        return {**by_status, "ignored": len(self.ignored)}

    @property
    def outcome(self) -> Outcome:
        """RETURN only for a device or driver seen to be at fault, or not what was agreed.

        UNKNOWN only for what counts.
        """
        failed = self.with_status(Status.FAIL)
        if any(f.check.returns and f.owner is Owner.MACHINE for f in failed):
            return Outcome.RETURN
        if failed:
            return Outcome.FIX
        judged = self.with_status(Status.PASS) or self.with_status(Status.WARN)
        return Outcome.READY if judged and self._unread is None else Outcome.UNKNOWN

    @property
    def _unread(self) -> Finding | None:
        """The first unknown that leaves the run without a verdict."""
        unread = self.with_status(Status.UNKNOWN)
        return next(
            (
                f
                for f in unread
                if self.chosen or f.check.is_required(self.facts.job, self.facts.options)
            ),
            None,
        )

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
    def next_action(self) -> str:
        """The one thing to do now."""
        match self.outcome:
            case Outcome.READY:
                return self._ready()
            case Outcome.UNKNOWN:
                if self._unread is None:
                    return "nothing was judged: every check that was chosen was skipped or ignored"
                return f"{self._unread.check.code}: {self._unread.verdict.summary}"
            case Outcome.RETURN:
                return f"{self._first(Owner.MACHINE)}; keep this report for the provider"
        return self._first(None)

    def _ready(self) -> str:
        warned = ", ".join(finding.check.code for finding in self.with_status(Status.WARN))
        if not warned:
            return "nothing that was checked stands in the way of training"
        if self.exit_code:
            return f"but --fail-on warn stops here: {warned}"
        return f"it will train; read {warned} first"

    def _first(self, owner: Owner | None) -> str:
        worst = next(f for f in self.with_status(Status.FAIL) if owner is None or f.owner is owner)
        sentence = re.split(r"(?<=\.) ", worst.fix.splitlines()[0])[0].rstrip(".")
        return f"{worst.check.code}: {shorten(sentence, 240, placeholder=' ...')}"
