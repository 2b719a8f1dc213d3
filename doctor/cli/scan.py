"""One scan of a checkpoint: a path or an address to facts, findings and a report."""

from __future__ import annotations

import inspect
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from doctor import catalog
from doctor._util.errors import UserError
from doctor._util.file_kinds import refuse_others
from doctor._util.records import Unknown
from doctor._util.units import printable
from doctor.checkpoint.io.addresses import check_exists
from doctor.checkpoint.io.urls import redact_url
from doctor.checkpoint.records import Checkpoint, Plan
from doctor.cli.examination import Record, working_directory
from doctor.cli.examine import check_installed
from doctor.cli.judging import judged
from doctor.cli.options import ConfigFlags
from doctor.collect.children import Children, fit, read_checkpoint
from doctor.facts.facts import SCANNED, Facts, without_machine
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Check, Verdict, skip
from doctor.judge.engine import examine
from doctor.report.progress import ProgressBar
from doctor.report.report import FailOn, Report, Tensor

SECONDS = 120.0
"""Without progress of the child: a dead mount or a server that does not respond."""

CHECKS = catalog.of_families("CKP")
DEVICE_VIEWS = {"target", "job_gpus", "chosen"}
"""Views of the device that a job trains on; a scan has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What to read beside the headers, as the user wrote it."""

    baseline: str | None = None
    deep: bool = False
    tensors: bool = False
    """The report lists every tensor."""
    merged_from: str | None = None
    adapters: tuple[str, ...] = ()
    equals: str | None = None
    plan: Plan | None = None
    """How the run is to be continued; None: no --continue."""

    def request(self) -> dict[str, object]:
        """The fields of the child's ScanRequest. Raises UserError for what is not there."""
        paths = {
            "--baseline": self.baseline,
            "--merged-from": self.merged_from,
            "--equals": self.equals,
        }
        for flag, path in paths.items():
            if path is not None:
                check_exists(path, flag)
        if self.merged_from is not None and not self.adapters:
            raise UserError("--merged-from needs the adapters that were merged: --adapter PATH")
        return {
            "baseline": self.baseline,
            "deep": self.deep,
            "tensors": self.tensors,
            "merged_from": self.merged_from,
            "adapters": [weighted(text) for text in self.adapters],
            "equals": self.equals,
            "plan": None if self.plan is None else msgspec.to_builtins(self.plan),
        }


def weighted(text: str) -> tuple[str, float]:
    """PATH or PATH=WEIGHT. Raises UserError."""
    path, _, number = text.rpartition("=")
    if path and not Path(text).exists():
        try:
            weight = float(number)
        except ValueError:
            raise UserError(f"--adapter {text}: {number!r} is not a number") from None
        if not math.isfinite(weight):
            raise UserError(f"--adapter {text}: the weight must be finite")
        check_exists(path, "--adapter")
        return path, weight
    check_exists(text, "--adapter")
    return text, 1.0


def scan(
    path: str,
    flags: Mapping[str, object],
    config: ConfigFlags,
    options: ScanOptions,
    *,
    fail_on: FailOn = "fail",
    progress: bool = True,
) -> Report:
    """Read the checkpoint in a child process and judge it. Raises UserError."""
    began = time.monotonic()
    check_installed()
    check_exists(path, "PATH")
    refuse_others(path, "checkpoint", ("lint", "triage", "data"))
    request = options.request()
    record = Record()
    checkpoint, rows = read_in_child(path, request, progress=progress)
    facts = facts_of(path, checkpoint, time.monotonic() - began)
    report = judge(facts.with_(examination=record.close()), flags, config, fail_on)
    return replace(report, tensors=tuple(rows) if options.tensors else None)


def judge(
    facts: Facts,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
    *,
    search: bool = True,
) -> Report:
    """The report on a checkpoint that was read.

    Raises UserError for flags and the job file.
    """
    checks = [without_a_device(check) for check in CHECKS]
    observed = examine(checks, facts)
    return judged(facts, observed, CHECKS, flags, config, fail_on, search=search)


def read_in_child(
    path: str, request: Mapping[str, object], *, progress: bool = False
) -> tuple[Checkpoint | Unknown, list[Tensor]]:
    """The checkpoint, and the tensors that the child reported on its way.

    `request`: fields of the child's ScanRequest.
    """
    rows: list[Tensor] = []
    children = Children()
    with ProgressBar(enabled=progress) as bar:

        def on_note(note: dict[str, object]) -> None:
            if "tensors" in note:
                tensors = fit(note["tensors"], list[Tensor])
                rows.extend(() if isinstance(tensors, Unknown) else tensors)
            else:
                bar.update(note)

        words = json.dumps(request)
        try:
            answer = children.run_probe(
                "checkpoint", path, words, seconds=SECONDS, on_enter=bar.show_stage, on_note=on_note
            )
        finally:
            children.interrupt()
    return read_checkpoint(answer), rows


def facts_of(path: str, checkpoint: Checkpoint | Unknown, seconds: float) -> Facts:
    """Facts of a checkpoint alone, sufficient for the checks of its family."""
    return without_machine(
        "doctor scan examines the checkpoint only",
        origin=SCANNED,
        job=Job(
            device="cpu", checkpoint=printable(redact_url(path)), working_dir=working_directory()
        ),
        options=RunOptions(smoke=False),
        checkpoint=checkpoint,
        seconds=seconds,
    )


def without_a_device(check: Check) -> Check:
    """The check, replaced by a skip if it judges the device that the job trains on."""
    if DEVICE_VIEWS.isdisjoint(inspect.signature(check.judge).parameters):
        return check
    return replace(check, judge=_no_device)


def _no_device() -> Verdict:
    return skip("a scan has no device; use doctor run --checkpoint to judge it for this machine")
