"""The file that a finding is about, where it is about one."""

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
    """A path as the job names it, and a line of it, counted from 1."""

    path: str
    line: int | None = None


def locate(finding: Finding, report: Report) -> Location | None:
    """The checkpoint's file for its family, the model for those that train it,
    the job file for what it expects.
    """
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
    """The file that the summary names, or that holds a tensor which it names, else the whole."""
    path = facts.job.checkpoint
    if path is None:
        return None
    found = facts.checkpoint
    if not isinstance(found, Checkpoint):
        return Location(path)
    files = {problem.file: problem.file for problem in found.problems if problem.file}
    if isinstance(found.values, Values):
        files |= {tensor.name: tensor.file for tensor in found.values.nonfinite}
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
