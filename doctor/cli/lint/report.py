"""A lint as a `Report`, for the formats that all commands share."""

from __future__ import annotations

from doctor.cli.examination import Record, working_directory
from doctor.cli.lint.run import Lint
from doctor.facts.facts import LINTED, Facts, without_machine
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.report.report import Report


def lint_report(result: Lint, saved: Facts | None, config: str) -> Report:
    """The findings over facts that know the machine of --facts only."""
    facts = saved or without_machine(
        "doctor lint reads scripts only",
        job=Job(device="cpu", working_dir=working_directory()),
        options=RunOptions(smoke=False),
    )
    examination = Record(result.started).close()
    return Report(
        facts.with_(origin=LINTED, examination=examination, seconds=result.seconds),
        result.findings,
        result.options.fail_on,
        config=config,
        notes=result.notes,
        files=len(result.paths),
    )
