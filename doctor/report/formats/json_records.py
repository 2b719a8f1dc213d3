"""What the JSON of a report, of a finding and of a check holds; fields are only ever added."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from doctor.errors.cause import Cause
from doctor.job.expect import Expect
from doctor.job.job import Job
from doctor.judge.check import Finding, Owner, Status
from doctor.judge.described import Described
from doctor.judge.sources import SOURCES
from doctor.report.actions import Action, actions_of
from doctor.report.formats.json_forms import CHECKS
from doctor.report.report import Outcome


class SourceRecord(msgspec.Struct, frozen=True):
    """An entry of the bibliography; `correction` applies where the cited text is wrong."""

    id: str
    title: str
    section: str
    url: str
    document: str
    correction: str
    checked: str


class ChangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A replacement of text; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class PlaceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines and columns count from 1 and are absent where unknown; `end_column` is exclusive."""

    path: str
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    cell: int = 0
    """Of a notebook, from 1; lines count from its start."""
    rank: int | None = None
    text: str = ""
    """The line."""
    message: str = ""
    """What is observed here, absent where that is the finding's summary."""
    edits: tuple[ChangeRecord, ...] = ()
    """The fix of a lint; --fix verifies it further before it writes."""
    edits_are_safe: bool = True
    """false: the fix may change what the script does, and needs --unsafe-fixes."""


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A check and its result. `fix` and `commands` are empty unless it warns or fails."""

    code: str
    slug: str
    family: str
    status: Status
    summary: str
    fix: str
    commands: tuple[str, ...]
    owner: Owner
    sources: tuple[SourceRecord, ...]
    seconds: float
    ignored: str
    """The reason why the user ignores it, "" if it counts."""
    causes: tuple[str, ...]
    """Ids of causes of errors that it has or may have; `doctor explain ID` prints one."""
    limits: str | msgspec.UnsetType = msgspec.UNSET
    """With --annotate: what this pass does not show, "" for any other status."""
    places: tuple[PlaceRecord, ...] = ()
    """Lines of a script or a log."""
    retry: str = ""
    """Of the first cause in a log, what a restart brings. "fix": the same failure, "again": it may
    succeed, "node": it may succeed on another node, "": not known."""
    actions: tuple[Action, ...] = ()
    """What a program may do about it: those of `commands` that have a safe form, and edits."""


class FindingLine(FindingRecord, frozen=True, kw_only=True):
    """A line of --format jsonl: a finding, and the report that it is of."""

    schema: Literal["urn:preflight-doctor:json-v1:finding"]
    doctor: str
    verdict: Outcome
    """Of the report."""
    started: str | None
    command: str | None
    host: str | None
    gpus: tuple[str, ...]
    driver: str | None
    torch: str | None
    path: str | None
    """Of a scan: the checkpoint."""


class Counts(msgspec.Struct, frozen=True, rename={"passed": "pass"}):
    """Findings that count, by status, and those that the user ignores."""

    passed: int
    warn: int
    fail: int
    skip: int
    unknown: int
    ignored: int
    note: int = 0
    """Passed, with something worth reading."""


class FlatJob(Job, frozen=True, kw_only=True):
    """The job, with what later became options and expectations: fields are only ever added."""

    smoke: bool = True
    quick: bool = False
    budget: float | None = None
    left_out: tuple[str, ...] = ()
    expect: Expect | None = None


class TensorRecord(msgspec.Struct, frozen=True):
    """A tensor of a checkpoint."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    bytes: int


class ReportRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The report. Findings are in the order of the other formats."""

    schema_version: Literal[1]
    doctor: str
    verdict: Outcome
    exit_code: int
    python: str | None
    """The training interpreter; null where none could be examined."""
    job: dict[str, Any]
    """The job's flags; null where the user gave none."""
    counts: Counts
    findings: tuple[FindingRecord, ...]
    seconds: float
    config: str
    """The job file that was used, "" for none."""
    notes: tuple[str, ...]
    """What was left out or not used, and why."""
    started: str | None
    """When the examination began, in UTC: 2026-01-31T09:05:00Z; null if it is not known."""
    command: str | None
    """The command line of the examination, without secrets."""
    host: str | None
    """The host's name with --no-redact, else null."""
    gpus: tuple[str, ...]
    """The name of each GPU of the job."""
    driver: str | None
    torch: str | None
    stages: dict[str, float]
    """Activity -> seconds."""
    schema: Literal["urn:preflight-doctor:json-v1:report"]
    headline: str
    """The verdict and what to do first, as `console` prints them."""
    path: str | msgspec.UnsetType = msgspec.UNSET
    """Of a scan: the checkpoint."""
    checkpoint: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    """Of a scan: what the checkpoint holds; null where it could not be read."""
    reason: str | msgspec.UnsetType = msgspec.UNSET
    """Of a scan: why the checkpoint could not be read."""
    tensors: tuple[TensorRecord, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of a scan with --tensors: every tensor."""
    fleet: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """Of a comparison of nodes: what was observed, as in the facts."""


class CheckRecord(msgspec.Struct, frozen=True, kw_only=True, rename={"passed": "pass"}):
    """A check of the catalogue; conditions are joined by semicolons."""

    code: str
    slug: str
    title: str
    why: str
    passed: str
    warn: str
    fail: str
    limits: str
    fix: str
    commands: tuple[str, ...]
    owner: Owner
    targets: tuple[str, ...]
    after: tuple[str, ...]
    sources: tuple[SourceRecord, ...]
    note: str = ""
    schema: Literal["urn:preflight-doctor:json-v1:checks"] = CHECKS


class CauseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of errors, as `doctor explain TEXT` names it, with the keys of a check."""

    code: str
    slug: str
    cause: str
    title: str
    why: str
    told_by: str
    """Where several causes have the same message: what distinguishes this one."""
    fix: str
    commands: tuple[str, ...]
    owner: Owner
    sources: tuple[SourceRecord, ...]
    schema: Literal["urn:preflight-doctor:json-v1:checks"] = CHECKS


def finding_record(finding: Finding, annotate: bool = False) -> FindingRecord:
    """The finding as the formats of JSON hold it; `annotate` adds what a pass does not show."""
    return FindingRecord(
        code=finding.check.code,
        slug=finding.check.slug,
        family=finding.check.family,
        status=finding.status,
        summary=finding.verdict.summary,
        fix=finding.fix,
        commands=finding.commands,
        owner=finding.owner,
        sources=source_records(finding.sources),
        seconds=round(finding.verdict.seconds, 3),
        ignored=finding.ignored,
        causes=finding.verdict.causes,
        limits=finding.limits if annotate else msgspec.UNSET,
        places=msgspec.convert(finding.places, tuple[PlaceRecord, ...], from_attributes=True),
        retry=finding.verdict.retry,
        actions=actions_of(finding),
    )


def cause_record(cause: Cause) -> CauseRecord:
    """A row of the table of errors."""
    return CauseRecord(
        code=cause.code,
        slug=cause.id,
        cause=cause.id,
        title=cause.title,
        why=cause.why,
        told_by=cause.told_by,
        fix=cause.fix,
        commands=cause.commands,
        owner=Owner(cause.owner),
        sources=source_records(cause.sources),
    )


def check_record(check: Described) -> CheckRecord:
    """A check of the catalogue."""
    return CheckRecord(
        code=check.code,
        slug=check.slug,
        title=check.title,
        why=check.why,
        passed="; ".join(check.passes),
        note="; ".join(check.notes),
        warn="; ".join(check.warns),
        fail="; ".join(check.fails),
        limits=check.limits,
        fix=check.fix,
        commands=check.commands,
        owner=check.owner,
        targets=check.targets,
        after=check.after,
        sources=source_records(check.sources),
    )


def source_records(ids: tuple[str, ...]) -> tuple[SourceRecord, ...]:
    """The entries of the bibliography."""
    entries = [SOURCES[id] for id in ids]
    return msgspec.convert(entries, tuple[SourceRecord, ...], from_attributes=True)
