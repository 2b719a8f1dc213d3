"""The file that a finding refers to, where there is one."""

from __future__ import annotations

import inspect
import posixpath
import re
from dataclasses import dataclass

from doctor.checkpoint.records import Checkpoint, Values
from doctor.facts.facts import Facts
from doctor.facts.training import OwnModel
from doctor.judge.check import Finding
from doctor.report.report import Report


@dataclass(frozen=True, slots=True)
class Location:
    """A path as the job names it, and a line number from 1."""

    path: str
    line: int | None = None


def locate(finding: Finding, report: Report) -> Location | None:
    """CKP findings: the checkpoint's file; own-model findings: its code; JOB: the job file."""
    facts = report.facts
    if finding.family == "JOB":
        return Location(report.config) if report.config else None
    if finding.family == "CKP":
        return _in_checkpoint(finding, facts)
    if "own" in inspect.signature(finding.check.judge).parameters and facts.job.model:
        path = facts.job.model.rpartition(":")[0] or facts.job.model
        return Location(path, _raised_at(facts.own, path))
    return None


def _in_checkpoint(finding: Finding, facts: Facts) -> Location | None:
    """The file that the summary names, or that holds a tensor it names, else the checkpoint."""
    path = facts.job.checkpoint
    if path is None:
        return None
    checkpoint = facts.checkpoint
    if not isinstance(checkpoint, Checkpoint):
        return Location(path)
    files = {problem.file: problem.file for problem in checkpoint.problems if problem.file}
    if isinstance(checkpoint.values, Values):
        files |= {tensor.name: tensor.file for tensor in checkpoint.values.nonfinite}
    named = [word for word in files if word in finding.verdict.summary]
    file = files[max(named, key=len)] if named else ""
    return Location(path if posixpath.basename(path) == file else posixpath.join(path, file))


def _raised_at(own: object, path: str) -> int | None:
    """The last line of that file in the traceback of the user's code."""
    if not isinstance(own, OwnModel):
        return None
    name = re.escape(posixpath.basename(path))
    lines = re.findall(rf'File "[^"]*\b{name}", line (\d{{1,7}})', own.traceback)
    return int(lines[-1]) if lines else None
