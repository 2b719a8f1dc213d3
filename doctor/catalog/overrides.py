"""The user's changes to findings: injected failures, severities, ignored findings."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from doctor import catalog
from doctor._util.errors import UserError
from doctor.errors.index import ENTRIES
from doctor.errors.retired import current
from doctor.job.expect import matches_name
from doctor.job.file.tables import Ignore, Severity
from doctor.judge import index
from doctor.judge.check import Finding, Status, Verdict, fail

NOTHING_TO_FIX = "Omit --inject, which forced this failure."
LOWERED = "a failure, lowered to a warning by [severity]"
RAISED = "a warning, raised to a failure by [severity]"


@dataclass(frozen=True, slots=True)
class Policy:
    """Changes by code. The empty policy changes nothing."""

    ignores: tuple[tuple[Ignore, frozenset[str]], ...] = ()
    """Each with the codes that it applies to; one of a cause applies to every code."""
    severity: Mapping[str, Severity] = field(default_factory=dict)
    inject: frozenset[str] = frozenset()


def resolve(
    ignores: Iterable[Ignore],
    severity: Mapping[str, Severity],
    inject: Sequence[str],
    path: str = "",
) -> Policy:
    """The policy with names resolved to codes. Raises UserError for an unknown name.

    `path` is the job file that `ignores` and `severity` come from.
    """
    where = f"{path}: " if path else ""
    resolved = tuple(
        (ignore, _ignored_codes(ignore, f"{where}[[ignore]] {number}: "))
        for number, ignore in enumerate(ignores, 1)
    )
    severities = {
        code: level
        for name, level in sorted(severity.items(), key=lambda item: len(item[0]) != 3)
        for code in _codes(name, f"{where}severity: ")
    }
    names = [part.strip() for name in inject for part in name.split(",") if part.strip()]
    injected = frozenset(code for name in names for code in _codes(name, "--inject: "))
    return Policy(resolved, severities, injected)


def _ignored_codes(ignore: Ignore, where: str) -> frozenset[str]:
    if (ignore.code is None) is (ignore.cause is None):
        raise UserError(f"{where}either code or cause is required")
    if ignore.code is not None:
        return _codes(ignore.code, f"{where}code: ")
    if current(str(ignore.cause)) not in ENTRIES:
        near = difflib.get_close_matches(str(ignore.cause), ENTRIES, 2)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise UserError(f"{where}cause: no cause is called {ignore.cause!r}{hint}")
    return frozenset(entry.code for entry in index.entries())


def _codes(name: str, where: str) -> frozenset[str]:
    try:
        return catalog.codes(name)
    except UserError as error:
        raise UserError(f"{where}{error}") from None


def apply(
    findings: Iterable[Finding], policy: Policy, host: str, today: datetime.date
) -> tuple[Finding, ...]:
    """The findings with the policy applied.

    `host` is the name of the host that was examined, "" if unknown. Severities and ignores also
    apply to injected failures, so that a gate can be tested.
    """
    return tuple(
        _ignored(_with_severity(_injected(finding, policy), policy), policy, host, today)
        for finding in findings
    )


def notes(policy: Policy, host: str, today: datetime.date) -> tuple[str, ...]:
    """For the report: ignores that have no effect, and why."""
    lines = []
    for number, (ignore, _) in enumerate(policy.ignores, 1):
        what = f"[[ignore]] {number} of {ignore.code or ignore.cause} ({ignore.reason})"
        if ignore.until is not None and ignore.until < today:
            lines.append(f"{what} expired on {ignore.until} and has no effect")
        elif ignore.host is not None and not host:
            lines.append(f"{what} applies to {ignore.host}; this host's name is unknown")
    return tuple(lines)


def _injected(finding: Finding, policy: Policy) -> Finding:
    if finding.check.code not in policy.inject:
        return finding
    own = finding.verdict
    summary = f"injected by --inject; without it: {own.status}, {own.summary}"
    return replace(finding, verdict=fail(summary, fix=NOTHING_TO_FIX), injected=True)


def _with_severity(finding: Finding, policy: Policy) -> Finding:
    severity = policy.severity.get(finding.check.code)
    if not finding.is_problem or severity is None or severity == finding.status:
        return finding
    note = LOWERED if severity == "warn" else RAISED
    own: Verdict = finding.verdict
    verdict = replace(own, status=Status(severity), summary=f"{own.summary} ({note})")
    return replace(finding, verdict=verdict, judged=own.status)


def _ignored(finding: Finding, policy: Policy, host: str, today: datetime.date) -> Finding:
    if not finding.is_problem and finding.status is not Status.UNKNOWN:
        return finding
    for ignore, codes in policy.ignores:
        expired = ignore.until is not None and ignore.until < today
        elsewhere = ignore.host is not None and not (host and matches_name(ignore.host, host))
        of_cause = ignore.cause is None or current(ignore.cause) in finding.verdict.causes[:1]
        if finding.check.code in codes and of_cause and not expired and not elsewhere:
            until = f" (until {ignore.until})" if ignore.until else ""
            return replace(finding, ignored=f"{ignore.reason}{until}")
    return finding
