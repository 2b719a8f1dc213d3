"""One run: flags to a job, facts from a file or this machine, findings, a report."""

from __future__ import annotations

import contextlib
import datetime
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from doctor._util.atomic_write import check_writable, write_whole
from doctor._util.errors import UserError
from doctor._util.units import printable
from doctor.checkpoint.io.addresses import there
from doctor.collect.children import background
from doctor.facts.facts import Facts, decode, encode
from doctor.facts.machine import Host
from doctor.job import budget
from doctor.job.file.config import JobFile, environment, load
from doctor.job.job import Job
from doctor.job.merge import LOOKED_AT, merge
from doctor.judge import catalog
from doctor.judge import overrides as policy
from doctor.judge.check import Check
from doctor.judge.engine import examine
from doctor.judge.overrides import Policy
from doctor.report.report import FailOn, Report

FACTS_BYTES = 256 * 2**20
CONFIG_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a run is told beside the job."""

    config: Path | None = None
    """The job file that --config names."""
    any_config: bool = True
    """False: neither DOCTOR_CONFIG nor a file above the working directory counts."""
    ignores: bool = True
    inject: Sequence[str] = ()
    budget: float | None = None
    """Seconds."""


NO_WISHES = Wishes()


def wishes(
    config: Path | None, no_config: bool, no_ignores: bool, inject: Sequence[str] | None,
    seconds: str | None,
) -> Wishes:  # fmt: skip
    """Wishes from flags. Raises UserError."""
    if config is not None and no_config:
        raise UserError("--config and --no-config do not go together")
    return Wishes(
        config,
        not no_config,
        not no_ignores,
        inject or (),
        None if seconds is None else budget.parse_seconds(seconds),
    )


def examine_job(
    flags: Mapping[str, Any],
    facts_file: Path | None,
    save_facts: Path | None,
    only: Sequence[str],
    skip: Sequence[str],
    fail_on: FailOn,
    *,
    progress: bool,
    wishes: Wishes = NO_WISHES,
) -> Report:
    """Examine and judge. Raises UserError for what the user can mend."""
    checks = selected(only, skip)
    file = _job_file(wishes, searched=facts_file is None)
    rules = policy.resolve(
        file.ignores if wishes.ignores else (), file.severity or {}, wishes.inject, file.path
    )
    _among(rules, checks)
    variables = environment(os.environ)
    given = merge(flags, variables, file, replayed=facts_file is not None)
    if save_facts:
        check_writable(save_facts, "--save-facts")
    left: tuple[str, ...] = ()
    if facts_file:
        _answered(flags)
        facts = _replayed(read_facts(facts_file), given)
    else:
        job, left = _affordable(_needed(Job(working_dir=_here(), **given), checks), wishes)
        facts = _live(job, progress)
    if save_facts:
        write_facts(facts, save_facts)
    host = facts.host.name if isinstance(facts.host, Host) else ""
    today = datetime.date.today()
    findings = policy.apply(examine(catalog.CHECKS, facts), rules, host, today)
    shown = [finding for finding in findings if finding.check in checks]
    return Report(
        facts,
        tuple(shown),
        fail_on,
        replayed=str(facts_file or ""),
        chosen=bool(only),
        config=file.path,
        notes=(
            *_by_variables(variables),
            *left,
            *file.notes,
            *policy.notes(rules, host, today),
        ),
    )


def _affordable(job: Job, wishes: Wishes) -> tuple[Job, tuple[str, ...]]:
    """The job as far as the budget has room for it, and a note of what it has none for."""
    if wishes.budget is None:
        return job, ()
    job, left = budget.reduce(job, wishes.budget)
    return job, (f"left out by --budget {wishes.budget:g}: {', '.join(left)}",) if left else ()


def _by_variables(variables: Mapping[str, Any]) -> tuple[str, ...]:
    names = ", ".join(f"DOCTOR_{name.upper()}" for name in variables)
    return (f"set by variables, unless a flag says otherwise: {names}",) if names else ()


def _job_file(wishes: Wishes, *, searched: bool) -> JobFile:
    """The job file, looked for in a thread: the working directory may be on a dead mount."""
    if not wishes.config and not wishes.any_config:
        return JobFile()
    start = _here() if searched else None
    found = background(lambda: load(wishes.config, os.environ, start))
    try:
        return found.result(CONFIG_SECONDS)
    except TimeoutError:
        raise UserError(
            f"no job file could be looked for in {CONFIG_SECONDS:g} s: is the working directory on "
            "a disk that answers? --no-config leaves it out"
        ) from None


def _among(rules: Policy, checks: Sequence[Check]) -> None:
    left = sorted(rules.inject - {check.code for check in checks})
    if left:
        raise UserError(f"--inject {left[0]} is not among the checks that --only and --skip leave")


def selected(only: Sequence[str], skip: Sequence[str]) -> list[Check]:
    """The checks that --only and --skip leave; each names codes, slugs or families."""
    wanted, unwanted = _codes(only), _codes(skip)
    left = [
        check
        for check in catalog.CHECKS
        if (not only or check.code in wanted) and check.code not in unwanted
    ]
    if not left:
        raise UserError("--only and --skip leave no check; name other codes or families")
    return left


def _codes(names: Sequence[str]) -> set[str]:
    parts = [part.strip() for name in names for part in name.split(",") if part.strip()]
    return {check.code for part in parts for check in catalog.lookup(part)}


def _needed(job: Job, checks: Sequence[Check]) -> Job:
    """The job without what no selected check looks at."""
    families = {check.family for check in checks}
    if not families & {"SMK", "GPU", "NUM"}:
        job = msgspec.structs.replace(job, smoke=False, quick=True)
    if not families & {"SMK", "NUM", "MEM", "DSK"}:
        job = msgspec.structs.replace(job, model=None, hf=None, lora=None, compile=False)
    return job


def _here() -> str:
    try:
        return printable(os.getcwd())  # noqa: PTH109 - Path.cwd() is the same with more
    except OSError as error:
        raise UserError(f"the working directory is gone: {error.strerror}; cd to another") from None


def _live(job: Job, progress: bool) -> Facts:
    from doctor.collect.collect import collect
    from doctor.collect.interpreter import program
    from doctor.collect.own_training import factory_of, find_directory

    if job.device == "mps" and sys.platform != "darwin":
        raise UserError("--device mps is for a Mac")
    if job.python and not os.access(program(job.python), os.X_OK):
        raise UserError(f"--python {job.python} is no program that can be run")
    if job.checkpoint:
        there(job.checkpoint, "--checkpoint")
    if job.model:
        factory_of(job.model)
    if job.hf:
        find_directory(job.hf)
    with _progress(progress) as told:
        return collect(job, told)


@contextlib.contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[str], None]]:
    """Tell on stderr what takes long, where stderr is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield lambda doing: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda doing: status.update(doing)


def _answered(flags: Mapping[str, Any]) -> None:
    for name in LOOKED_AT:
        if flags.get(name) is not None:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} is looked at on this machine; leave it out with --facts")


def _replayed(facts: Facts, given: dict[str, Any]) -> Facts:
    job = msgspec.structs.replace(facts.job, **given)
    if not job.smoke:
        facts = facts.with_(smoke=None, siblings=(), attention=None, watched=None)
    if job.quick:
        facts = facts.with_(load=None, peers=None)
    return facts.with_(job=job)


def read_facts(path: Path) -> Facts:
    """A facts file of anyone. Raises UserError with one line."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"--facts {path} is not a file")
            data = file.read(FACTS_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"--facts {path}: {getattr(error, 'strerror', error)}") from None
    if len(data) > FACTS_BYTES:
        raise UserError(f"--facts {path} is over {FACTS_BYTES >> 20} MiB, no facts file is")
    try:
        return decode(data)
    except ValueError as error:
        raise UserError(f"--facts {path}: {error}") from None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def write_facts(facts: Facts, path: Path) -> None:
    """Write a whole file or none, through links. Raises UserError."""
    write_whole(path, encode(facts), "--save-facts")
