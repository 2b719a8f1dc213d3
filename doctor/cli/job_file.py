"""The job file of a command, and the user's changes to its findings."""

from __future__ import annotations

import os
from collections.abc import Sequence

from doctor._util.errors import UserError
from doctor._util.units import printable
from doctor.catalog import overrides
from doctor.catalog.overrides import Policy
from doctor.cli.config_choice import ConfigChoice
from doctor.collect.background import background
from doctor.job.file.config import JobFile, load
from doctor.judge.check import Check

CONFIG_SECONDS = 5.0
"""For reading the job file: the working directory may be on a dead mount."""


def policy_of(file: JobFile, config: ConfigChoice) -> Policy:
    """The user's changes to findings, of the job file and the flags. Raises UserError."""
    ignores = () if config.no_ignores else file.ignores
    return overrides.resolve(ignores, file.severity or {}, config.inject or (), file.path)


def read_job_file(config: ConfigChoice, *, search: bool) -> JobFile:
    """The job file, read in a thread. `search`: look for one from the working directory up."""
    if config.config and config.no_config:
        raise UserError("--config cannot be combined with --no-config")
    if config.no_config:
        return JobFile()
    start = working_directory() if search else None
    file = background(lambda: load(config.config, os.environ, start))
    try:
        return file.result(CONFIG_SECONDS)
    except TimeoutError:
        raise UserError(
            f"timed out after {CONFIG_SECONDS:g} s looking for a job file; check that the working "
            "directory's disk responds, or pass --no-config"
        ) from None


def check_injected(policy: Policy, checks: Sequence[Check]) -> None:
    """Raise UserError for an injected failure of a check that is not reported."""
    excluded = sorted(policy.inject - {check.code for check in checks})
    if excluded:
        raise UserError(f"--inject {excluded[0]} is excluded by --only or --skip")


def working_directory() -> str:
    """Raises UserError if it does not exist any more."""
    try:
        return printable(os.getcwd())  # noqa: PTH109 - Path.cwd() is the same with more
    except OSError as error:
        raise UserError(
            f"the working directory does not exist: {error.strerror}; cd to another"
        ) from None
