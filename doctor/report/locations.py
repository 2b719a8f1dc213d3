"""The files and lines that a finding refers to, where there are any."""

from __future__ import annotations

import hashlib
import inspect
import posixpath
import re
from collections.abc import Iterator

from doctor.checkpoint.records import Checkpoint, Values
from doctor.facts.facts import Facts
from doctor.facts.own_model import OwnModel
from doctor.judge.check import Finding
from doctor.judge.place import Place
from doctor.report.report import Report


def locate(finding: Finding, report: Report) -> tuple[Place, ...]:
    """The verdict's own places, or the file that the finding is about: at most one, or ()."""
    return finding.places or tuple(_subject(finding, report))


def results(finding: Finding, report: Report) -> tuple[tuple[Place, tuple[Place, ...]], ...]:
    """The places that count as one result each, with the places that belong to it.

    Every place of a script is a mistake of its own; those of a log after the first one are what
    followed from it.
    """
    places = locate(finding, report)
    if finding.family == "LOG" and places:
        return ((places[0], places[1:]),)
    return tuple((place, ()) for place in places)


def relative(path: str, working_dir: str) -> str:
    """A path from the job's working directory where it is below it; an address as it is."""
    if "://" in path:
        return path
    full = posixpath.normpath(posixpath.join(working_dir, path))
    below = full.startswith(working_dir.rstrip("/") + "/")
    return posixpath.relpath(full, working_dir) if below else full


def fingerprint(code: str, path: str, place: Place) -> str:
    """What stays the same when lines are inserted above: the line's text, not its number."""
    line = place.text.strip()
    return hashlib.sha256(f"{code} {path} {line}".strip().encode()).hexdigest()[:32]


def _subject(finding: Finding, report: Report) -> Iterator[Place]:
    """CKP findings: the checkpoint's file; own-model findings: its code; JOB: the job file."""
    facts = report.facts
    if finding.family == "JOB":
        if report.config:
            yield Place(path=report.config)
    elif finding.family == "CKP":
        yield from _in_checkpoint(finding, facts)
    elif "own" in inspect.signature(finding.check.judge).parameters and facts.job.model:
        path = facts.job.model.rpartition(":")[0] or facts.job.model
        yield Place(path=path, line=_raised_at(facts.own, path))


def _in_checkpoint(finding: Finding, facts: Facts) -> Iterator[Place]:
    """The file that the summary names, or that holds a tensor it names, else the checkpoint."""
    path = facts.job.checkpoint
    if path is None:
        return
    checkpoint = facts.checkpoint
    if not isinstance(checkpoint, Checkpoint):
        yield Place(path=path)
        return
    files = {problem.file: problem.file for problem in checkpoint.problems if problem.file}
    if isinstance(checkpoint.values, Values):
        files |= {tensor.name: tensor.file for tensor in checkpoint.values.nonfinite}
    named = [word for word in files if word in finding.verdict.summary]
    file = files[max(named, key=len)] if named else ""
    yield Place(path=path if posixpath.basename(path) == file else posixpath.join(path, file))


def _raised_at(own: object, path: str) -> int:
    """The last line of that file in the traceback of the user's code, 0 if unknown."""
    if not isinstance(own, OwnModel):
        return 0
    name = re.escape(posixpath.basename(path))
    lines = re.findall(rf'File "[^"]*\b{name}", line (\d{{1,7}})', own.traceback)
    return int(lines[-1]) if lines else 0
