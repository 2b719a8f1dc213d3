"""How a check of a curve is declared."""

from __future__ import annotations

from collections.abc import Callable

from doctor.checks.log.curves.explained import explained
from doctor.facts.log import Log
from doctor.judge.check import Check, Owner, Verdict


def curve_check(
    code: str, slug: str, judge: Callable[[Log], Verdict], *, fix: str, **fields: object
) -> Check:
    judge = explained(slug, judge, fix)
    return Check(code=code, slug=slug, judge=judge, fix=fix, owner=Owner.JOB, **fields)  # type: ignore[arg-type]
