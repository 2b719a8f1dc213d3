"""A lint as a `Report`, for the formats that all commands share."""

from __future__ import annotations

import os

from doctor._util.records import Unknown
from doctor._util.units import printable
from doctor.cli.lint import Lint
from doctor.facts.facts import LINTED, Facts
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.report.report import Report


def lint_report(result: Lint, saved: Facts | None, config: str) -> Report:
    """The findings over facts that know the machine of --facts only."""
    facts = _facts() if saved is None else saved
    return Report(
        facts.with_(seconds=result.seconds),
        result.findings,
        result.options.fail_on,
        config=config,
        notes=result.notes,
    )


def _facts() -> Facts:
    unread = Unknown(reason="doctor lint reads scripts only")
    return Facts(
        origin=LINTED,
        job=Job(device="cpu", working_dir=printable(os.getcwd())),  # noqa: PTH109
        options=RunOptions(smoke=False),
        host=unread,
        interpreter=unread,
        torch=unread,
        places=unread,
    )
