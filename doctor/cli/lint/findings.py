"""Hits of rules to findings: one for each check and severity; undecided and ignored ones apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from doctor.checks.script.lint import Hit
from doctor.checks.script.rule import RANK, STATUSES, Rule
from doctor.checks.script.table import BY_CODE
from doctor.judge.check import Check, Finding, Status, Verdict
from doctor.judge.place import Place
from doctor.report.lint import NO_SCRIPT


def findings_of(hits: Iterable[tuple[Hit, Place]], checks: Sequence[Check]) -> Iterator[Finding]:
    """One finding per check and kind: decided, undecided, suppressed."""
    decided: dict[str, list[tuple[Hit, Place]]] = defaultdict(list)
    undecided: dict[str, list[Place]] = defaultdict(list)
    ignored: dict[str, list[tuple[Hit, Place]]] = defaultdict(list)
    for hit, place in hits:
        if _is_habit(hit.code) and decided.get(hit.code):
            continue
        if hit.ignored:
            ignored[hit.code].append((hit, place))
        elif hit.undecided:
            undecided[hit.code].append(place)
        else:
            decided[hit.code].append((hit, place))
    for check in checks:
        yield from _of_check(check, decided[check.code], undecided[check.code])
        if accepted := ignored[check.code]:
            finding = _decided(check, accepted)
            yield replace(finding, ignored=accepted[0][0].ignored)


def without_place(finding: Finding) -> Finding:
    """A habit that is absent counts and is not shown: nearly every script lacks some."""
    if not _is_habit(finding.check.code) or finding.ignored:
        return finding
    return replace(finding, verdict=replace(finding.verdict, places=()))


def not_decided(checks: Iterable[Check]) -> Iterator[Finding]:
    """What a lint that read no script says: nothing is known, which is no pass."""
    return (Finding(check, Verdict(Status.UNKNOWN, NO_SCRIPT)) for check in checks)


def _is_habit(code: str) -> bool:
    rule: Rule | None = BY_CODE.get(code)
    return rule is not None and rule.once


def _of_check(
    check: Check, decided: list[tuple[Hit, Place]], undecided: list[Place]
) -> Iterator[Finding]:
    if decided:
        yield from _by_severity(check, decided)
    if undecided:
        summary = undecided[0].message
        yield Finding(check, Verdict(Status.UNKNOWN, summary, places=tuple(undecided)))
    if not decided and not undecided:
        yield Finding(check, Verdict(Status.PASS, "no file does it"))


def _by_severity(check: Check, decided: list[tuple[Hit, Place]]) -> Iterator[Finding]:
    """Failures, warnings and notes of one check are findings of their own."""
    for severity in reversed(RANK):
        if part := [pair for pair in decided if pair[0].severity == severity]:
            yield _decided(check, part)


def _decided(check: Check, hits: list[tuple[Hit, Place]]) -> Finding:
    more = f" (and {len(hits) - 1} more)" if len(hits) > 1 else ""
    places = tuple(place for _, place in hits)
    summary = f"{hits[0][0].message}{more}"
    verdict = Verdict(STATUSES[hits[0][0].severity], summary, fix=check.fix, places=places)
    return Finding(check, verdict)
