"""Findings over facts, as the user wants them: selected, overridden, in a report."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from doctor import catalog
from doctor.catalog import overrides
from doctor.cli.config_choice import ConfigChoice
from doctor.cli.job_file import check_injected, policy_of, read_job_file
from doctor.facts.facts import Facts
from doctor.job.file.tables import Ignore, Severity
from doctor.judge.check import Check, Finding
from doctor.report.report import FailOn, Report


class Overrides(Protocol):
    """The part of a job file that changes findings."""

    @property
    def path(self) -> str: ...

    @property
    def ignores(self) -> tuple[Ignore, ...]: ...

    @property
    def severity(self) -> Mapping[str, Severity]: ...


def overridden(
    findings: Sequence[Finding], file: Overrides, inject: Sequence[str], no_ignores: bool
) -> tuple[Finding, ...]:
    """The findings of a lint with the job file's [[ignore]] and [severity], and --inject."""
    ignores = () if no_ignores else file.ignores
    policy = overrides.resolve(ignores, file.severity, inject, file.path)
    check_injected(policy, [finding.check for finding in findings])
    return overrides.apply(findings, policy, "", datetime.date.today())


def judged(
    facts: Facts,
    observed: Iterable[Finding],
    among: Sequence[Check],
    flags: Mapping[str, Any],
    config: ConfigChoice,
    fail_on: FailOn,
    *,
    search: bool = True,
) -> Report:
    """The report on findings, of those checks of `among` that --only and --skip leave.

    `search`: look for a job file from the working directory up; for saved facts none is searched.
    Raises UserError for flags and the job file.
    """
    only = flags.get("only", ())
    checks = catalog.select(only, flags.get("skip", ()), among=among)
    file = read_job_file(config, search=search)
    policy = policy_of(file, config)
    check_injected(policy, checks)
    today = datetime.date.today()
    codes = {check.code for check in checks}
    findings = overrides.apply(observed, policy, "", today)
    return Report(
        facts,
        tuple(finding for finding in findings if finding.check.code in codes),
        fail_on,
        selected=bool(only),
        config=file.path,
        notes=(*file.notes, *overrides.notes(policy, "", today)),
    )
