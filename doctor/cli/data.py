"""One look at the data of a training: a target to facts, findings and a report."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from doctor import catalog
from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor._util.units import printable
from doctor.cli.examination import Record, working_directory
from doctor.cli.examine import check_installed
from doctor.cli.judging import judged
from doctor.cli.options import ConfigFlags
from doctor.collect.children import Children
from doctor.collect.data import DataRequest, collect_data
from doctor.collect.data_target import two_files, what_of
from doctor.collect.interpreter import choose
from doctor.facts.data import Data
from doctor.facts.facts import DELIVERED, Facts, without_machine
from doctor.facts.script import Script
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.engine import examine
from doctor.report.progress import ProgressBar
from doctor.report.report import FailOn, Report
from doctor.script.read import read_script

CHECKS = catalog.of_families("DAT")
SPLITS = ("train", "eval")


def request(
    targets: tuple[str, str | None],
    tokenizer: Path | None,
    splits: str,
    samples: int,
    seconds: float,
    show: int,
) -> DataRequest:
    """The request in the words of the flags; `targets` are TARGET and a second file. Raises
    UserError."""
    names = tuple(filter(None, (each.strip() for each in splits.split(","))))
    if unknown := [each for each in names if each not in SPLITS]:
        raise UserError(f"--split {unknown[0]}: not a split; the splits are {', '.join(SPLITS)}")
    if not names:
        raise UserError("--split names no split; the splits are train, eval")
    if tokenizer is not None and not os.path.isdir(tokenizer):  # noqa: PTH112 - never raises
        raise UserError(f"--tokenizer {tokenizer}: no such directory; name a local directory")
    return DataRequest(
        target=printable(" ".join(filter(None, targets))),
        what=what_of(targets[0]) if targets[1] is None else two_files(targets[0], targets[1]),
        tokenizer=str(tokenizer or ""),
        splits=names,
        samples=samples,
        seconds=seconds,
        show=show,
    )


def data(
    request: DataRequest,
    flags: Mapping[str, object],
    config: ConfigFlags,
    *,
    python: str | None = None,
    fail_on: FailOn = "fail",
    progress: bool = True,
) -> Report:
    """Look at the data in a child process and judge them. Raises UserError."""
    began = time.monotonic()
    check_installed()
    record = Record()
    interpreter, _ = choose(python, os.environ)
    children = Children()
    with ProgressBar(enabled=progress) as bar:
        try:
            section = collect_data(children, interpreter, request, bar.show_stage)
        finally:
            children.interrupt()
    facts = facts_of(request, section, time.monotonic() - began)
    return judge(facts.with_(examination=record.close()), flags, config, fail_on)


def facts_of(request: DataRequest, section: Data | Unknown, seconds: float) -> Facts:
    """Facts of data alone, sufficient for the checks of their family."""
    return without_machine(
        "doctor data examines the data only",
        origin=DELIVERED,
        job=Job(device="cpu", working_dir=working_directory()),
        options=RunOptions(smoke=False),
        data=section,
        scripts=scripts_of(request),
        seconds=seconds,
    )


def scripts_of(request: DataRequest) -> tuple[Script, ...] | None:
    """The file of the factory; None for files of rows, and where it cannot be read."""
    path = str(request.what.get("file", ""))
    try:
        script = read_script(path, Path(path).read_bytes()) if path else None
    except OSError:
        return None
    return None if script is None else (structs.replace(script, path=Path(path).name),)


def judge(
    facts: Facts,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
    *,
    search: bool = True,
) -> Report:
    """The report on data that were read. Raises UserError for flags and the job file."""
    return judged(facts, examine(CHECKS, facts), CHECKS, flags, config, fail_on, search=search)
