"""The verdict on a curve with its reason: lines of the log, or the settings that it states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from doctor.checks.log.conditions import fix_of, named, places_of, reasons_of
from doctor.checks.log.curves.mild import MILD
from doctor.checks.log.differential.decide import decided, decided_by_far, looked_at
from doctor.facts.log import Log
from doctor.judge.check import Status, Verdict

Judge = Callable[[Log], Verdict]
FROM_THE_LOWEST = ("loss-divergence",)
"""Checks whose place is before what went wrong."""


def explained(slug: str, judge: Judge, fix: str) -> Judge:
    """The judge of a curve, with the reason that lines or settings give for what it finds."""

    def judged(log: Log) -> Verdict:
        verdict = judge(log)
        if verdict.status not in (Status.FAIL, Status.WARN):
            return _by_far(slug, verdict, log)
        if verdict.causes:  # the curve itself shows why
            return verdict
        return _by_lines(slug, verdict, log) or _by_settings(slug, verdict, log, fix)

    return judged


def _by_lines(slug: str, verdict: Verdict, log: Log) -> Verdict | None:
    place = next(iter(verdict.places), None) if slug not in FROM_THE_LOWEST else None
    reasons = reasons_of(log, (slug,), place.path if place else "", place.line or 0 if place else 0)
    if not reasons:
        return None
    return replace(
        verdict,
        summary=f"{named(reasons)}{verdict.summary}",
        fix=fix_of(reasons),
        places=(*verdict.places, *places_of(reasons)),
        causes=tuple(row.id for row, _ in reasons),
    )


def _by_settings(slug: str, verdict: Verdict, log: Log, fix: str) -> Verdict:
    path = _path_of(verdict, log)
    if decision := decided(log, (slug,), path):
        return decision.added_to(verdict)
    if shown := looked_at(log, (slug,), path):
        return replace(verdict, fix=f"{verdict.fix or fix} {shown}")
    return verdict


def _by_far(slug: str, verdict: Verdict, log: Log) -> Verdict:
    """A note, or a milder form of the symptom, is a warning with a setting that is far off."""
    mild = MILD.get(slug)
    if mild is None or not log.stated:
        return verdict
    found = verdict if verdict.status is Status.NOTE else mild(log)
    decision = decided_by_far(log, slug, _path_of(found, log)) if found else None
    if found is None or decision is None:
        return verdict
    return decision.added_to(replace(found, status=Status.WARN))


def _path_of(verdict: Verdict, log: Log) -> str:
    """The file that the verdict is about."""
    place = next(iter(verdict.places), None)
    return place.path if place else log.files[0].path if log.files else ""
