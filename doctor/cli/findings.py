"""The findings over a machine's facts, recorded there or read from a pasted report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from doctor import catalog
from doctor.facts.facts import Facts
from doctor.judge import index
from doctor.judge.check import Check, Finding, Status, Verdict, unknown
from doctor.judge.engine import examine
from doctor.pasted.reading import NOT_IN_REPORT


def findings_of(facts: Facts) -> tuple[Finding, ...]:
    """The findings over facts of any origin.

    Of a pasted report, a check is unknown if the report does not tell what it needs, and then it
    holds up no other check. The others are not imported.
    """
    if not facts.is_pasted:
        return examine(catalog.MACHINE_CHECKS, facts)
    checks = _answerable()
    alone = examine([replace(each, after=()) for each in checks], facts)
    open_codes = {each.check.code for each in alone if each.status is Status.UNKNOWN}
    free = [replace(each, after=_without(each.after, open_codes)) for each in checks]
    originals = {each.code: each for each in checks}
    return tuple(
        replace(each, check=originals[each.check.code], verdict=_shortened(each.verdict))
        for each in examine(free, facts)
    )


def _answerable() -> list[Check]:
    """The checks of a machine; those that no report answers say so."""
    entries = [each for each in index.entries() if each.family not in catalog.ELSEWHERE]
    families = {each.family for each in entries if "read" in each.also}
    judges = {each.code: each for each in catalog.of_families(*families) if "read" in each.also}
    return [judges.get(each.code) or _unanswerable(each) for each in entries]


def _unanswerable(entry: index.Entry) -> Check:
    return Check(**entry._asdict() | {"judge": _unanswered, "after": ()})


def _shortened(verdict: Verdict) -> Verdict:
    """Without the list of everything that the report does not tell."""
    summary = verdict.summary
    is_plain = summary.endswith(NOT_IN_REPORT) or f"({NOT_IN_REPORT})" in summary
    return _unanswered() if verdict.status is Status.UNKNOWN and is_plain else verdict


def _without(codes: Sequence[str], excluded: set[str]) -> tuple[str, ...]:
    return tuple(code for code in codes if code not in excluded)


def _unanswered() -> Verdict:
    return unknown("not in the report")
