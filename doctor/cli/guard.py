"""`doctor guard`: a training from its start to the report."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from doctor._util.errors import UserError
from doctor._util.units import shown
from doctor.cli import own_script
from doctor.cli.alarm_command import AlarmCommand
from doctor.cli.guard_report import CHECKS, report_directory, selected
from doctor.cli.job_file import read_job_file
from doctor.cli.options import ConfigFlags
from doctor.collect.guard_overseer import DATA
from doctor.collect.guard_records import FILE
from doctor.collect.guarded_command import run_command
from doctor.judge.check import Finding, Status
from doctor.report.formats.json import render_lines
from doctor.report.names import this_machine
from doctor.report.redaction import redact
from doctor.report.report import FailOn, Report

DEFAULT = "doctor-guard"


def guard(
    command: Sequence[str],
    flags: Mapping[str, object],
    config: ConfigFlags,
    *,
    out: Path | None,
    shared: bool,
    stop: bool,
    all: bool,
    on_alarm: str = "",
    stall_seconds: float | None = None,
    fail_on: FailOn,
) -> tuple[Report, int]:
    """Run the command under the guard; the report and the exit code. Raises UserError."""
    if shutil.which(command[0]) is None:
        raise UserError(f"{command[0]}: not an executable file and not on PATH")
    if missing := own_script.missing_file(command):
        raise UserError(f"{shown(missing, 300)}: no such file; nothing was started")
    directory = _directory(out, shared=shared)
    file = read_job_file(config, search=True)
    ignore = [check.code for check in CHECKS if check not in selected(flags)]
    settings = {
        "out": str(directory),
        "shared": shared,
        "stop": stop,
        "ignore": ignore,
        "all": all,
        "expect_no_grad": (file.job or {}).get("expect_no_grad", ()),
        "parent": True,
    }
    judged = partial(report_directory, directory, flags, config, fail_on=fail_on)
    announcer = Announcer(on_alarm, judged)
    end = run_command(command, settings, directory, announcer, stall_seconds)
    of_file = () if flags.get("only") else own_script.of_command(command)
    report = judged(of_file=of_file)
    announcer.end(report)
    if end.stopped:
        return report, 1
    return report, end.code or report.exit_code


class Announcer:
    """Hands each finding to the user's command once, again where a warning became a failure."""

    def __init__(self, line: str, report: Callable[[], Report]) -> None:
        self._command = AlarmCommand(line, os.environ) if line else None
        self._report = report
        self._announced: set[tuple[str, Status]] = set()
        self._printed: set[tuple[str, Status]] = set()

    def __call__(self, code: str) -> None:
        """An alarm with this code was recorded; DATA: batches were counted."""
        if self._command is None and code != DATA:
            return
        with contextlib.suppress(UserError):
            report = self._report()
            if code == DATA:
                self._print(report)
            self._announce(report, lambda finding: code in (finding.check.code, finding.family))

    def _print(self, report: Report) -> None:
        """What is wrong with the data, which the training's process does not judge itself."""
        for finding in report.findings:
            key = finding.check.code, finding.status
            wrong = finding.is_problem and not finding.ignored
            if finding.family == DATA and wrong and key not in self._printed:
                self._printed.add(key)
                code, summary = finding.check.code, shown(finding.verdict.summary, 500)
                line = f"doctor guard: {code} {finding.status}: {summary}; see: doctor explain"
                print(line, code, file=sys.stderr, flush=True)

    def end(self, report: Report) -> None:
        """The training has ended: what was not announced yet."""
        self._announce(report, lambda finding: True)
        if self._command is not None:
            self._command.end()

    def _announce(self, report: Report, wanted: Callable[[Finding], bool]) -> None:
        if self._command is None:
            return
        for finding in report.findings:
            key = finding.check.code, finding.status
            news = finding.is_problem and not finding.ignored and key not in self._announced
            if news and wanted(finding):
                self._announced.add(key)
                one = dataclasses.replace(report, findings=(finding,))
                self._command.run(render_lines(redact(one, here=this_machine())))


def _directory(out: Path | None, *, shared: bool) -> Path:
    """An absolute directory without records of an earlier run, which is made. Raises UserError."""
    try:
        here = Path.cwd()
    except OSError:
        raise UserError("the working directory does not exist any more; enter another") from None
    if out is not None:
        if _has_records(out):
            raise UserError(
                f"--output-dir {out} holds records of an earlier run; name another directory"
            )
        path = Path(os.path.abspath(out))  # noqa: PTH100 - resolve follows links
        if not _is_made(path, shared=shared):
            raise UserError(f"--output-dir {out} cannot be written; name another directory")
        return path
    number = 1
    while _has_records(path := here / (DEFAULT if number == 1 else f"{DEFAULT}-{number}")):
        number += 1
    if _is_made(path, shared=shared):
        return path
    other = Path(tempfile.mkdtemp(prefix=f"{DEFAULT}-"))
    print(f"doctor guard: {here} cannot be written; records are in {other}", file=sys.stderr)
    return other


def _is_made(path: Path, *, shared: bool) -> bool:
    """Make the directory, for others only if they may read it, and say whether it takes files."""
    try:
        path.mkdir(0o777 if shared else 0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(path, os.W_OK | os.X_OK)


def _has_records(path: Path) -> bool:
    try:
        return any(FILE.fullmatch(entry.name) for entry in path.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UserError(f"--output-dir {path}: {error.strerror or error}") from None
