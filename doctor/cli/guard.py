"""`doctor guard`: a training from its start to the report, and `doctor report DIR`."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor._util.units import printable
from doctor.cli.inputs import policy_of, read_job_file
from doctor.cli.options import ConfigFlags
from doctor.collect.guard_records import FILE, read_records
from doctor.collect.guarded_command import run_command
from doctor.facts.facts import Facts, without_machine
from doctor.facts.guard import Guarded
from doctor.facts.machine import Examination
from doctor.job.job import Job
from doctor.judge import catalog, overrides
from doctor.judge.engine import examine
from doctor.report.redaction import without_secrets
from doctor.report.report import FailOn, Report

DEFAULT = "doctor-guard"
CHECKS = catalog.lookup("GRD")


def guard(
    command: Sequence[str],
    flags: Mapping[str, Any],
    config: ConfigFlags,
    *,
    out: Path | None,
    stop: bool,
    all: bool,
    fail_on: FailOn,
) -> tuple[Report, int]:
    """Run the command under the guard; the report and the exit code. Raises UserError."""
    if shutil.which(command[0]) is None:
        raise UserError(f"{command[0]}: not an executable file and not on PATH")
    directory = _directory(out)
    file = read_job_file(config, search=True)
    ignore = [check.code for check in CHECKS if check not in _selected(flags)]
    settings = {
        "out": str(directory),
        "stop": stop,
        "ignore": ignore,
        "all": all,
        "expect_no_grad": (file.job or {}).get("expect_no_grad", ()),
        "parent": True,
    }
    end = run_command(command, settings, directory)
    report = report_directory(directory, flags, config, fail_on=fail_on)
    if end.stopped:
        return report, 1
    return report, end.code or report.exit_code


def _directory(out: Path | None) -> Path:
    """An absolute directory without records of an earlier run. Raises UserError."""
    if out is not None:
        if _has_records(out):
            raise UserError(f"--out {out} holds records of an earlier run; name another directory")
        return Path(os.path.abspath(out))  # noqa: PTH100 - resolve follows links
    number = 1
    while _has_records(path := Path(DEFAULT if number == 1 else f"{DEFAULT}-{number}")):
        number += 1
    return Path(os.path.abspath(path))  # noqa: PTH100


def _has_records(path: Path) -> bool:
    try:
        return any(FILE.fullmatch(entry.name) for entry in path.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UserError(f"--out {path}: {error.strerror or error}") from None


def _selected(flags: Mapping[str, Any]) -> tuple[Any, ...]:
    return catalog.select(flags.get("only", ()), flags.get("skip", ()), CHECKS)


def report_directory(
    directory: Path, flags: Mapping[str, Any], config: ConfigFlags, *, fail_on: FailOn
) -> Report:
    """The report on the records in a directory. Raises UserError."""
    try:
        guarded = read_records(directory)
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror or error}") from None
    file = read_job_file(config, search=False)
    policy = policy_of(file, config)
    facts = _facts(guarded, directory)
    today = datetime.date.today()
    findings = overrides.apply(examine(CHECKS, facts), policy, "", today)
    selected = _selected(flags)
    return Report(
        facts,
        tuple(finding for finding in findings if finding.check in selected),
        fail_on,
        selected=bool(flags.get("only")),
        config=file.path,
        notes=_notes(guarded, directory),
    )


def _facts(guarded: Guarded | Unknown, directory: Path) -> Facts:
    seconds = 0.0
    examination = None
    if isinstance(guarded, Guarded):
        seconds = max(process.counts.seconds for process in guarded.processes)
        first = min(process.started for process in guarded.processes)
        examination = Examination(
            started=f"{datetime.datetime.fromtimestamp(first, datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
            command=tuple(without_secrets(printable(word)) for word in guarded.command),
        )
    return without_machine(
        "the machine was not examined; doctor run does that",
        origin=f"recorded by doctor guard in {printable(str(directory))}",
        examination=examination,
        job=Job(device="cpu"),
        guard=guarded,
        seconds=seconds,
    )


def _notes(guarded: Guarded | Unknown, directory: Path) -> tuple[str, ...]:
    """What the reader should know of the records."""
    notes = [f"records: {printable(str(directory))}"]
    if isinstance(guarded, Unknown):
        return tuple(notes)
    killed = [p.rank for p in guarded.processes if not p.ended]
    if killed:
        ranks = ", ".join(map(str, killed[:8]))
        notes.append(f"killed before its end, the records stop early: rank {ranks}")
    world = max(process.world for process in guarded.processes)
    if len(guarded.processes) < world:
        notes.append(f"{len(guarded.processes)} of {world} ranks wrote records here")
    if guarded.restarts:
        notes.append(f"{guarded.restarts} earlier processes of the same ranks are not judged")
    if guarded.stopped:
        notes.append("the job was ended by --stop")
    return tuple(notes)
