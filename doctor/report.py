"""The findings of a run and what follows from them: verdict, counts, exit code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from textwrap import shorten
from typing import Literal

from doctor.facts import Facts
from doctor.job import Job
from doctor.model import Finding, Owner, Status

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

    def with_status(self, status: Status) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.status is status)

    @property
    def counts(self) -> dict[str, int]:
        return {str(status): len(self.with_status(status)) for status in Status}

    @property
    def outcome(self) -> Outcome:
        """RETURN only for a device or driver seen to be at fault; UNKNOWN only for what counts."""
        failed = self.with_status(Status.FAIL)
        if any(f.owner is Owner.MACHINE and f.check.family in ("DRV", "GPU") for f in failed):
            return Outcome.RETURN
        if failed:
            return Outcome.FIX
        if any(_counts(finding, self.facts.job) for finding in self.with_status(Status.UNKNOWN)):
            return Outcome.UNKNOWN
        return Outcome.READY

    @property
    def exit_code(self) -> int:
        """0 nothing at or above `fail_on`; 1 something is; 3 the verdict is UNKNOWN."""
        if self.fail_on == "never":
            return 0
        gates = (Status.FAIL,) if self.fail_on == "fail" else (Status.FAIL, Status.WARN)
        if any(finding.status in gates for finding in self.findings):
            return 1
        return 3 if self.outcome is Outcome.UNKNOWN else 0

    @property
    def next_action(self) -> str:
        """The one thing to do now."""
        match self.outcome:
            case Outcome.READY:
                return "nothing that was checked stands in the way of training"
            case Outcome.UNKNOWN:
                unread = next(
                    f for f in self.with_status(Status.UNKNOWN) if _counts(f, self.facts.job)
                )
                return f"{unread.check.code} could not be judged: {unread.verdict.summary}"
            case Outcome.RETURN:
                return f"{self._first(Owner.MACHINE)}; keep this report for the provider"
        return self._first(None)

    def _first(self, owner: Owner | None) -> str:
        worst = next(f for f in self.with_status(Status.FAIL) if owner is None or f.owner is owner)
        sentence = re.split(r"(?<=\.) ", worst.fix.splitlines()[0])[0].rstrip(".")
        return f"{worst.check.code}: {shorten(sentence, 240, placeholder=' ...')}"


def _counts(unread: Finding, job: Job) -> bool:
    """Whether an unknown leaves the run without a verdict: the smoke step, or what was named."""
    named = {
        "SMK": job.smoke,
        "CKP": job.checkpoint is not None,
        "DSK": job.output_dir is not None,
        "GPU": job.gpus is not None and unread.check.code == "GPU001",
    }
    return named.get(unread.check.family, False)
