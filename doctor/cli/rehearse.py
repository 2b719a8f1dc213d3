"""`doctor rehearse`: the job's own command in small, and the report on what happened."""

from __future__ import annotations

import datetime
import math
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from doctor import catalog
from doctor._util.errors import UserError
from doctor._util.secrets import hide_in_arguments
from doctor._util.units import printable
from doctor.cli.judging import judged
from doctor.cli.options import ConfigFlags
from doctor.collect.rehearsal.launchers import refuse_launchers
from doctor.collect.rehearsal.stages import Options
from doctor.collect.rehearsal.stages import rehearse as run_stages
from doctor.facts.facts import Facts, without_machine
from doctor.facts.machine import Examination
from doctor.facts.rehearsal import Rehearsal
from doctor.job.job import Job
from doctor.judge.check import Finding, Status
from doctor.judge.engine import examine
from doctor.report.report import FailOn, Report

CHECKS = tuple(each for each in catalog.of_families("RHS", "GRD") if each.code != "GRD022")
"""The guard watches the first run; how that ended is in RHS003."""
UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "": 1}
PROGRESS_SECONDS = 5.0
"""Between two lines of progress that differ in the step alone."""


def rehearse(
    command: Sequence[str],
    flags: Mapping[str, object],
    rehearsal: Mapping[str, object],
    config: ConfigFlags,
    *,
    output_dir: Path | None,
    fail_on: FailOn,
    quiet: bool,
) -> Report:
    """Rehearse the command; the report. Raises UserError."""
    if sys.platform != "linux":
        raise UserError("doctor rehearse needs Linux: it confines the command by its kernel")
    refuse_launchers(command)
    if shutil.which(command[0]) is None:
        raise UserError(f"{printable(command[0])}: not an executable file and not on PATH")
    began = datetime.datetime.now(datetime.UTC)
    options = _options(rehearsal, output_dir, _progress(quiet=quiet))
    done, guarded, kept = run_stages(command, options)
    gpu = any(rank.allocated is not None for run in done.runs for rank in run.ranks)
    facts = without_machine(
        "the machine was not examined; doctor run does that",
        origin="recorded by doctor rehearse",
        examination=Examination(
            started=f"{began:%Y-%m-%dT%H:%M:%SZ}", command=hide_in_arguments(tuple(command))
        ),
        job=Job(device="cuda" if gpu else "cpu"),
        guard=guarded,
        rehearsal=done,
        seconds=done.seconds,
    )
    return judge(facts, flags, config, fail_on, kept=kept)


def judge(
    facts: Facts,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
    *,
    search: bool = True,
    kept: Path | None = None,
) -> Report:
    """The report on a rehearsal; `kept`: where its logs are. Raises UserError."""
    report = judged(facts, examine(CHECKS, facts), CHECKS, flags, config, fail_on, search=search)
    assert isinstance(facts.rehearsal, Rehearsal)
    findings = [finding for finding in report.findings if not _needs_more_steps(finding)]
    left_out = [finding for finding in report.findings if _needs_more_steps(finding)]
    open_codes = [each.check.code for each in left_out if each.status is Status.UNKNOWN]
    notes = _notes(facts.rehearsal, kept)
    if open_codes:
        notes = (*notes, f"not judged, the steps were too few: {', '.join(open_codes)}")
    return replace(report, findings=tuple(findings), notes=(*notes, *report.notes))


def _needs_more_steps(finding: Finding) -> bool:
    """Whether a check of the guard had nothing to say on so short a training."""
    return finding.family == "GRD" and finding.status in (Status.UNKNOWN, Status.SKIP)


def _notes(rehearsal: Rehearsal, kept: Path | None) -> tuple[str, ...]:
    notes = [_protection(rehearsal)]
    notes += [
        f"{stage.name}: not tried, because {stage.reason}"
        for stage in rehearsal.stages
        if not stage.tried
    ]
    hashing = sum(max((r.hashing for r in run.ranks), default=0.0) for run in rehearsal.runs)
    runs = ", ".join(f"{run.name} {run.seconds:.0f} s" for run in rehearsal.runs)
    notes.append(f"runs: {runs}; {hashing:.1f} s of them for hashing the state")
    notes.append(
        "few steps change what depends on their number: a schedule, a warm-up, the end of an epoch"
    )
    if kept is not None:
        notes.append(f"logs: {printable(str(kept / 'records'))}")
    return tuple(notes)


def _protection(rehearsal: Rehearsal) -> str:
    held = rehearsal.protection
    if not held.files:
        return "not protected: --unprotected"
    parts = ["read-only mounts"] * held.mounts
    parts += [f"Landlock {held.landlock}"] if held.landlock else []
    lacking = "" if rehearsal.takes_output else "the command has no {output}; "
    refused = f"writes outside {{output}} refused by {' and '.join(parts)}"
    return f"{lacking}{refused}; network {held.network}"


def _options(
    flags: Mapping[str, Any], output_dir: Path | None, progress: Callable[[str], None]
) -> Options:
    return Options(
        output_dir=output_dir,
        unprotected=flags.get("unprotected", False),
        network=flags.get("network", False),
        writable=tuple(flags.get("writable", ())),
        budget=_seconds("--budget", flags.get("budget", "15m")),
        grace=_seconds("--grace", flags.get("grace", "30s")),
        signal=flags.get("signal", "SIGTERM"),
        in_output=flags.get("in_output", False),
        resume_command=tuple(_words(flags.get("resume_command", ""))),
        keep=flags.get("keep", False),
        checkpoints_kept=flags.get("keep_checkpoints"),
        total_steps=flags.get("total_steps"),
        total_tokens=flags.get("total_tokens"),
        price=_price(flags.get("price"), flags.get("total_steps") or flags.get("total_tokens")),
        access=tuple(flags.get("access") or ()),
        progress=progress,
    )


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UserError(f"--resume-command {printable(line)}: {error}") from None


def _seconds(flag: str, text: str) -> float:
    """Raises UserError for a text that is not a time above 0."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?) ?(s|m|min|h|)", text.strip())
    if match is None or float(match[1]) == 0:
        raise UserError(f"{flag} {printable(text)}: a time such as 90s or 15m is required")
    return float(match[1]) * UNITS[match[2]]


def _price(price: float | None, total: int | None) -> float | None:
    """Raises UserError for a price that is not above 0, or is given alone."""
    if price is not None and not (math.isfinite(price) and price > 0):
        raise UserError(f"--price {price:g}: a price per hour above 0 is required")
    if price is not None and total is None:
        raise UserError(
            "--price requires --total-steps or --total-tokens, the length of the real job"
        )
    return price


def _progress(*, quiet: bool) -> Callable[[str], None]:
    """Prints a line to stderr when it differs; lines of steps not too often."""
    last, at = "", 0.0

    def show(text: str) -> None:
        nonlocal last, at
        now = time.monotonic()
        kind = text.partition(": step")[0]
        if quiet or text == last or (last.startswith(kind) and now - at < PROGRESS_SECONDS):
            return
        last, at = text, now
        print(f"doctor rehearse: {text}", file=sys.stderr, flush=True)

    return show
