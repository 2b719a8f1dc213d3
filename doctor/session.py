"""One run: flags to a job, facts from a file or this machine, findings, a report."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from doctor import catalog
from doctor.engine import examine
from doctor.errors import UserError
from doctor.facts import Facts, decode, encode
from doctor.job import Job
from doctor.model import Check
from doctor.report import FailOn, Report
from doctor.units import parse_count

LOOKED_AT = ("checkpoint", "output_dir", "python")
"""Flags that name what must be looked at here, so that a facts file cannot answer them."""
FACTS_BYTES = 256 * 2**20


def examine_job(
    flags: Mapping[str, Any],
    facts_file: Path | None,
    save_facts: Path | None,
    only: Sequence[str],
    skip: Sequence[str],
    fail_on: FailOn,
    *,
    progress: bool,
) -> Report:
    """Examine and judge. Raises UserError for what the user can mend."""
    checks = selected(only, skip)
    given = _given(flags)
    _writable(save_facts)
    if facts_file:
        facts = _replayed(read_facts(facts_file), given)
    else:
        facts = _live(_needed(Job(working_dir=str(Path.cwd()), **given), checks), progress)
    if save_facts:
        write_facts(facts, save_facts)
    findings = examine(catalog.CHECKS, facts)
    shown = catalog.in_families(f for f in findings if f.check in checks)
    return Report(facts, tuple(shown), fail_on)


def selected(only: Sequence[str], skip: Sequence[str]) -> list[Check]:
    """The checks that --only and --skip leave; each names a code, a slug or a family."""
    wanted = {check.code for name in only for check in catalog.lookup(name, families=True)}
    unwanted = {check.code for name in skip for check in catalog.lookup(name, families=True)}
    return [
        check
        for check in catalog.CHECKS
        if (not only or check.code in wanted) and check.code not in unwanted
    ]


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in flags.items() if value is not None}
    for name in ("params", "trainable"):
        if name in given:
            try:
                given[name] = parse_count(given[name])
            except ValueError as error:
                raise UserError(f"--{name}: {error}") from None
    return given


def _needed(job: Job, checks: Sequence[Check]) -> Job:
    """The job without what no selected check looks at."""
    families = {check.family for check in checks}
    if not families & {"SMK", "GPU"}:
        job = msgspec.structs.replace(job, smoke=False)
    return job


def _live(job: Job, progress: bool) -> Facts:
    from doctor.collect import collect
    from doctor.interpreter import program

    if job.python and not os.access(program(job.python), os.X_OK):
        raise UserError(f"--python {job.python} is no program that can be run")
    if job.checkpoint and not Path(job.checkpoint).exists():
        raise UserError(f"--checkpoint {job.checkpoint} does not exist")
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


def _replayed(facts: Facts, given: dict[str, Any]) -> Facts:
    for name in LOOKED_AT:
        if name in given:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} is looked at on this machine; leave it out with --facts")
    job = msgspec.structs.replace(facts.job, **given)
    if not job.smoke:
        facts = facts.with_(smoke=None, slowdown=None)
    return facts.with_(job=job)


def read_facts(path: Path) -> Facts:
    """A facts file of anyone. Raises UserError with one line."""
    try:
        with path.open("rb") as file:
            if not path.is_file():
                raise UserError(f"--facts {path} is not a file")
            data = file.read(FACTS_BYTES + 1)
    except OSError as error:
        raise UserError(f"--facts {path}: {error.strerror}") from None
    if len(data) > FACTS_BYTES:
        raise UserError(f"--facts {path} is over {FACTS_BYTES >> 20} MiB, no facts file is")
    try:
        return decode(data)
    except ValueError as error:
        raise UserError(f"--facts {path}: {error}") from None


def _writable(path: Path | None) -> None:
    """Find out before the run that its facts could not be written after it."""
    if path and (path.is_dir() or not os.access(path.absolute().parent, os.W_OK)):
        raise UserError(f"--save-facts {path} cannot be written; name a file in a writable folder")


def write_facts(facts: Facts, path: Path) -> None:
    """Write a whole file or none. Raises UserError."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.absolute().parent, delete=False) as file:
            file.write(encode(facts))
        Path(file.name).replace(path)
    except OSError as error:
        raise UserError(f"--save-facts {path}: {error.strerror}") from None
