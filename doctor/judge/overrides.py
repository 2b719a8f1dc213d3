"""What the user made of the findings: failures on purpose, other severities, accepted ones."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from doctor._util.errors import UserError
from doctor.job.expect import names
from doctor.job.file.tables import Ignore, Severity
from doctor.judge import catalog
from doctor.judge.check import Finding, Status, Verdict, fail

NOTHING = "The doctor was asked to fail here, with --inject: nothing is to be mended by this."
LOWERED = "a failure, lowered to a warning by [severity]"
RAISED = "a warning, raised to a failure by [severity]"


@dataclass(frozen=True, slots=True)
class Policy:
    """Codes are those of the catalogue. The empty policy changes nothing."""

    ignores: tuple[tuple[Ignore, frozenset[str]], ...] = ()
    """Each with the codes that it stands for."""
    severity: Mapping[str, Severity] = field(default_factory=dict)
    inject: frozenset[str] = frozenset()


def resolve(
    ignores: Iterable[Ignore],
    severity: Mapping[str, Severity],
    inject: Sequence[str],
    path: str = "",
) -> Policy:
    """The policy, its names looked up. Raises UserError for a name that no check has.

    `path` is the job file that the first two stand in.
    """
    where = f"{path}: " if path else ""
    found = tuple(
        (ignore, _codes(ignore.code, f"{where}[[ignore]] {number}: code: "))
        for number, ignore in enumerate(ignores, 1)
    )
    severities = {
        code: said
        for name, said in sorted(severity.items(), key=lambda item: len(item[0]) != 3)
        for code in _codes(name, f"{where}severity: ")
    }
    wanted = [part.strip() for name in inject for part in name.split(",") if part.strip()]
    injected = frozenset(code for name in wanted for code in _codes(name, "--inject: "))
    return Policy(found, severities, injected)


def _codes(name: str, where: str) -> frozenset[str]:
    try:
        return frozenset(check.code for check in catalog.lookup(name))
    except UserError as error:
        raise UserError(f"{where}{error}") from None


def apply(
    findings: Iterable[Finding], policy: Policy, host: str, today: datetime.date
) -> tuple[Finding, ...]:
    """The findings as the policy has them.

    `host` is the name of the host that was examined, "" where it is not known. What is injected
    is then subject to the rest, so that a gate is seen as it will be.
    """
    return tuple(
        _ignored(_graded(_injected(finding, policy), policy), policy, host, today)
        for finding in findings
    )


def notes(policy: Policy, host: str, today: datetime.date) -> tuple[str, ...]:
    """What a reader must know of ignores that ignore nothing."""
    told = []
    for number, (ignore, _) in enumerate(policy.ignores, 1):
        what = f"[[ignore]] {number} of {ignore.code} ({ignore.reason})"
        if ignore.until is not None and ignore.until < today:
            told.append(f"{what} ended on {ignore.until} and ignores nothing any more")
        elif ignore.host is not None and not host:
            told.append(f"{what} is for {ignore.host}; this host's name is not known")
    return tuple(told)


def _injected(finding: Finding, policy: Policy) -> Finding:
    if finding.check.code not in policy.inject:
        return finding
    own = finding.verdict
    said = f"injected by --inject; without it: {own.status}, {own.summary}"
    return replace(finding, verdict=fail(said, fix=NOTHING))


def _graded(finding: Finding, policy: Policy) -> Finding:
    wanted = policy.severity.get(finding.check.code)
    if not finding.is_problem or wanted is None or wanted == finding.status:
        return finding
    told = LOWERED if wanted == "warn" else RAISED
    own: Verdict = finding.verdict
    verdict = replace(own, status=Status(wanted), summary=f"{own.summary} ({told})")
    return replace(finding, verdict=verdict, judged=own.status)


def _ignored(finding: Finding, policy: Policy, host: str, today: datetime.date) -> Finding:
    if not finding.is_problem and finding.status is not Status.UNKNOWN:
        return finding
    for ignore, codes in policy.ignores:
        over = ignore.until is not None and ignore.until < today
        elsewhere = ignore.host is not None and not (host and names(ignore.host, host))
        if finding.check.code in codes and not over and not elsewhere:
            until = f" (until {ignore.until})" if ignore.until else ""
            return replace(finding, ignored=f"{ignore.reason}{until}")
    return finding
