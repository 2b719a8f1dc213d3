"""One scan of a checkpoint: a path or an address to facts, findings and a report."""

from __future__ import annotations

import inspect
import json
import time
from dataclasses import dataclass, replace
from typing import Any

from doctor._util.records import Unknown
from doctor._util.units import printable
from doctor.checkpoint.io.addresses import check_exists
from doctor.checkpoint.io.urls import redact_url
from doctor.checkpoint.records import Checkpoint
from doctor.collect.children import Children, fit, read_checkpoint
from doctor.facts.facts import Facts
from doctor.job.job import Job
from doctor.judge import catalog
from doctor.judge.check import Check, Verdict, skip
from doctor.judge.engine import examine
from doctor.report.progress import ProgressBar
from doctor.report.redaction import redact
from doctor.report.report import Report

SECONDS = 120.0
"""Without a word from the child: a dead mount or a server that does not answer."""

OF_A_DEVICE = {"target", "job_gpus", "chosen"}
"""Views that are about the device of a job; a scan knows of none."""

Row = tuple[str, str, list[int], str, int]
"""Name, dtype, shape, file and bytes of a tensor."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan found, to be rendered."""

    report: Report
    rows: tuple[Row, ...] | None = None
    """None: --all was not given."""

    def redacted(self, *, keep_names: bool) -> Scan:
        """The same as anyone may see it."""
        return replace(self, report=redact(self.report, keep_names=keep_names))

    @property
    def path(self) -> str:
        return self.report.facts.job.checkpoint or ""

    @property
    def checkpoint(self) -> Checkpoint | Unknown:
        found = self.report.facts.checkpoint
        return found or Unknown(reason="nothing was looked at")


def scan(path: str, baseline: str | None, *, deep: bool, every: bool) -> Scan:
    """Read the checkpoint in a child process and judge it. Raises UserError."""
    began = time.monotonic()
    check_exists(path, "PATH")
    if baseline is not None:
        check_exists(baseline, "--baseline")
    wanted = {"baseline": baseline, "deep": deep, "tensors": every}
    rows: list[Row] = []
    with ProgressBar() as bar:
        found = _asked(path, json.dumps(wanted), bar, rows)
    facts = facts_of(path, found, time.monotonic() - began)
    checks = [without_a_device(check) for check in catalog.CHECKS if check.family == "CKP"]
    report = Report(facts, examine(checks, facts))
    return Scan(report, tuple(rows) if every else None)


def _asked(path: str, wanted: str, bar: ProgressBar, rows: list[Row]) -> Checkpoint | Unknown:
    def heard(note: dict[str, Any]) -> None:
        if "tensors" in note:
            told = fit(note["tensors"], list[Row])
            rows.extend(() if isinstance(told, Unknown) else told)
        else:
            bar.update(note)

    children = Children()
    try:
        answer = children.run_probe(
            "checkpoint", path, wanted, seconds=SECONDS, on_enter=bar.show_stage, on_note=heard
        )
    finally:
        children.interrupt()
    return read_checkpoint(answer)


def facts_of(path: str, found: Checkpoint | Unknown, seconds: float) -> Facts:
    """Facts of a checkpoint alone, which the checks of its family can judge."""
    unseen = Unknown(reason="doctor scan looks at the checkpoint alone")
    return Facts(
        origin="recorded by doctor scan",
        job=Job(device="cpu", smoke=False, checkpoint=printable(redact_url(path))),
        host=unseen,
        interpreter=unseen,
        torch=unseen,
        places=unseen,
        checkpoint=found,
        seconds=seconds,
    )


def without_a_device(check: Check) -> Check:
    """The check, or a skip in its place where it judges the device that the job will run on."""
    if OF_A_DEVICE.isdisjoint(inspect.signature(check.judge).parameters):
        return check
    return replace(check, judge=_no_device)


def _no_device() -> Verdict:
    return skip("a scan knows no device; doctor run --checkpoint judges it for this machine's")
