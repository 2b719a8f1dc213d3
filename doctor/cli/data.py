"""One look at the data of a training: a target to facts, findings and a report."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

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
from doctor.collect.interpreter import choose
from doctor.collect.own_names import file_of, functions_of
from doctor.facts.data import Data
from doctor.facts.facts import DELIVERED, Facts, without_machine
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.engine import examine
from doctor.report.progress import ProgressBar
from doctor.report.report import FailOn, Report

CHECKS = catalog.of_families("DAT")
SPLITS = ("train", "eval")
ROWS = (".jsonl", ".json", ".parquet", ".csv", ".tsv", ".txt", ".ndjson")


def request(
    target: str, tokenizer: Path | None, splits: str, samples: int, seconds: float, show: int
) -> DataRequest:
    """The request in the words of the flags. Raises UserError."""
    names = tuple(filter(None, (each.strip() for each in splits.split(","))))
    if unknown := [each for each in names if each not in SPLITS]:
        raise UserError(f"--split {unknown[0]}: not a split; the splits are {', '.join(SPLITS)}")
    if not names:
        raise UserError("--split names no split; the splits are train, eval")
    if tokenizer is not None and not os.path.isdir(tokenizer):  # noqa: PTH112 - never raises
        raise UserError(f"--tokenizer {tokenizer}: no such directory; name a local directory")
    return DataRequest(
        target=printable(target),
        what=_what(target),
        tokenizer=str(tokenizer or ""),
        splits=names,
        samples=samples,
        seconds=seconds,
        show=show,
    )


def _what(target: str) -> dict[str, object]:
    """A factory, or a file or directory of rows. Raises UserError."""
    if os.path.exists(target):  # noqa: PTH110 - never raises
        if os.path.isdir(target) or target.endswith(ROWS):  # noqa: PTH112
            return {"kind": "file", "path": os.path.abspath(target)}  # noqa: PTH100
        hint = "name a function, as in train.py:make" if target.endswith(".py") else (
            "files of rows end in " + ", ".join(ROWS))  # fmt: skip
        raise UserError(f"TARGET {target}: {hint}{_functions(target)}")
    file, colon, name = target.rpartition(":")
    path = file_of(file)
    if not colon or not name.isidentifier():
        raise UserError(f"TARGET {target}: no such file or directory")
    if not path.endswith(".py") or not os.path.isfile(path):  # noqa: PTH113
        raise UserError(f"TARGET {target}: no such Python file: {path}")
    return {"kind": "factory", "file": path, "name": name, "arguments": []}


def _functions(path: str) -> str:
    names = functions_of(path) if path.endswith(".py") else None
    return f"; its functions are {', '.join(names[:8])}" if names else ""


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
        seconds=seconds,
    )


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
