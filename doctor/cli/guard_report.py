"""The report on what a training recorded under `doctor guard`."""

from __future__ import annotations

import dataclasses
import datetime
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from doctor import catalog
from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor._util.units import printable, shown
from doctor.catalog import overrides
from doctor.checks.guard import ending
from doctor.cli import own_script
from doctor.cli.examination import Record
from doctor.cli.job_file import policy_of, read_job_file
from doctor.cli.options import ConfigFlags
from doctor.collect.guard_data import read_data
from doctor.collect.guard_records import read_gpus, read_records
from doctor.collect.training_gpus import TrainingGpus
from doctor.facts.facts import Facts, without_machine
from doctor.facts.guard import EarlierCheckpoint, Guarded
from doctor.facts.machine import Examination
from doctor.job.job import Job
from doctor.judge.check import Check, Finding, Status
from doctor.judge.engine import examine
from doctor.report.report import FailOn, Report

OF_BATCHES = ("DAT001", "DAT005", "DAT009", "DAT010", "DAT013", "DAT019")
"""What the first batches of a training show, and two of its epochs."""
DATA_CHECKS = tuple(each for each in catalog.of_families("DAT") if each.code in OF_BATCHES)
CHECKS = catalog.of_families("GRD") + DATA_CHECKS
GPU_CHECKS = tuple(
    dataclasses.replace(check, required="never")
    for check in catalog.of_families("GPU")
    if "guard" in check.also
)
"""Evaluated where NVML answered while the training ran; the training is the verdict's subject."""
PROBLEMS = (Status.FAIL, Status.WARN)


def selected(flags: Mapping[str, Any], more: tuple[Check, ...] = ()) -> tuple[Check, ...]:
    return catalog.select(flags.get("only", ()), flags.get("skip", ()), (*CHECKS, *more))


def report_directory(
    directory: Path,
    flags: Mapping[str, object],
    config: ConfigFlags,
    *,
    fail_on: FailOn,
    of_file: tuple[Finding, ...] = (),
) -> Report:
    """The report on the records in a directory; `of_file` are warnings about the script that was
    run. Raises UserError."""
    try:
        guarded = read_records(directory)
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror or error}") from None
    data, gpus = read_data(directory), read_gpus(directory)
    file = read_job_file(config, search=False)
    policy = policy_of(file, config)
    facts = _facts(guarded, gpus, directory).with_(data=data)
    today = datetime.date.today()
    examined = isinstance(gpus.gpus, tuple) and not flags.get("only")
    checks = (*_judged(guarded), *(GPU_CHECKS if examined else ()))
    findings = overrides.apply((*examine(checks, facts), *of_file), policy, "", today)
    of_script = tuple(each.check for each in of_file)
    reported = {check.code for check in (*selected(flags, of_script), *GPU_CHECKS)}
    return Report(
        facts,
        _ordered([finding for finding in findings if finding.check.code in reported], guarded),
        fail_on,
        selected=bool(flags.get("only")),
        config=file.path,
        notes=(
            *_notes(guarded, gpus, directory),
            *file.notes,
            *overrides.notes(policy, "", today),
        ),
    )


def _judged(guarded: Guarded | Unknown) -> tuple[Check, ...]:
    """Without records every check is unknown for one reason, not because of another check."""
    if isinstance(guarded, Unknown):
        return tuple(dataclasses.replace(check, after=()) for check in CHECKS)
    return CHECKS


def _ordered(findings: Sequence[Finding], guarded: Guarded | Unknown) -> tuple[Finding, ...]:
    """Failures and warnings first, the earliest step and the end last; then what the text of the
    script alone shows, and what is no problem, by code."""

    def order(finding: Finding) -> tuple[int, int]:
        if not finding.is_problem:
            return len(PROBLEMS), 0
        if finding.family == own_script.FAMILY:
            return PROBLEMS.index(finding.status), sys.maxsize
        status = finding.judged or finding.status
        return PROBLEMS.index(finding.status), _first_step(guarded, finding.check.code, status)

    return tuple(sorted(findings, key=order))


def _first_step(guarded: Guarded | Unknown, code: str, status: Status) -> int:
    """The first step with an alarm of this status; 0 where none has a step."""
    if isinstance(guarded, Unknown):
        return 0
    if code == ending.CODE:
        return sys.maxsize  # after every alarm
    alarms = [alarm for process in guarded.processes for alarm in process.alarms]
    return min((a.step for a in alarms if a.code == code and a.status == status), default=0)


def _facts(guarded: Guarded | Unknown, gpus: TrainingGpus, directory: Path) -> Facts:
    seconds = 0.0
    examination = Record().close()
    if isinstance(guarded, Guarded):
        seconds = max((process.counts.seconds for process in guarded.processes), default=0.0)
        first = min((process.started for process in guarded.processes), default=int(time.time()))
        examination = Examination(
            started=f"{datetime.datetime.fromtimestamp(first, datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
            command=guarded.command,
        )
    return without_machine(
        "the machine was not examined; doctor run does that",
        origin=f"recorded by doctor guard in {printable(str(directory))}",
        examination=examination,
        job=Job(device="cuda" if isinstance(gpus.gpus, tuple) else "cpu"),
        guard=guarded,
        gpus=gpus.gpus,
        watched=gpus.watched,
        seconds=seconds,
    )


def _notes(guarded: Guarded | Unknown, gpus: TrainingGpus, directory: Path) -> tuple[str, ...]:
    """What the reader should know of the records."""
    notes = [f"records: {printable(str(directory))}"]
    if isinstance(guarded, Unknown):
        return tuple(notes)
    notes += [*_unread_notes(guarded), *_rank_notes(guarded)]
    if guarded.restarts:
        notes.append(f"{guarded.restarts} earlier processes of the same ranks are not judged")
    if guarded.stopped:
        notes.append("the job was ended by --stop")
    if isinstance(gpus.gpus, Unknown):
        notes.append(f"the GPUs were not sampled: {shown(gpus.gpus.reason)}")
    if guarded.checkpoint is not None:
        notes.append(_checkpoint_note(guarded.checkpoint))
    return tuple(notes)


def _rank_notes(guarded: Guarded) -> list[str]:
    """Which ranks wrote no records, or not to their end."""
    notes = []
    if not guarded.steps and guarded.exit_code:
        ended = f"the command ended with {guarded.exit_code}"
        notes.append(f"no training step was observed before {ended}")
    killed = [p.rank for p in guarded.processes if not p.ended]
    if killed:
        ranks = ", ".join(map(str, killed[:8]))
        notes.append(f"killed before its end, the records stop early: rank {ranks}")
    world = max((process.world for process in guarded.processes), default=0)
    if len(guarded.processes) < world:
        notes.append(f"{len(guarded.processes)} of {world} ranks wrote records here")
    return notes


def _unread_notes(guarded: Guarded) -> list[str]:
    """That some steps were not read, of the process with most of them."""
    every = (process.counts for process in guarded.processes)
    counts = max(every, key=lambda counts: counts.unread, default=None)
    if counts is None or not counts.unread:
        return []
    return [
        f"from step {counts.unread_from:,} on, not every step is read, but at least one of "
        f"{counts.read_every}: a step takes {1000 * counts.step_seconds:.2g} ms; not read: "
        f"{counts.unread:,} of {counts.steps:,} steps"
    ]


def _checkpoint_note(checkpoint: EarlierCheckpoint) -> str:
    where = ", ".join(checkpoint.examined[:3])
    more = "" if checkpoint.complete else ", not all of it: there are too many files"
    if not checkpoint.path:
        return (
            "this training wrote no checkpoint before its first failure, by file times in "
            f"{where}{more}"
        )
    step = f", after step {checkpoint.step:,}" if checkpoint.step else ""
    return (
        "newest checkpoint that this training wrote before its first failure, by file times in "
        f"{where}{more}: {checkpoint.path}{step}, {checkpoint.seconds:,.0f} s earlier"
    )
