"""Logs and findings over them, made of text."""

from __future__ import annotations

import io

from doctor import catalog
from doctor._util.records import Unknown
from doctor.checks.log.patterns import line_patterns
from doctor.facts.facts import Facts
from doctor.facts.log import Curve, Log, LogFile
from doctor.job.job import Job
from doctor.judge.check import Finding, Status
from doctor.judge.engine import examine
from doctor.log.patterns import Gate
from doctor.log.read import join, read_stream

GATE = Gate(line_patterns())
LOG_CHECKS = tuple(check for check in catalog.CHECKS if check.family == "LOG")
NOT_EXAMINED = Unknown(reason="a log only")


def read(**files: str) -> Log:
    """The log of these files, name -> text."""
    logs = [read_stream(name, io.BytesIO(text.encode()), GATE) for name, text in files.items()]
    return Log(
        files=tuple(file for log in logs for file in log.files),
        events=tuple(event for log in logs for event in log.events),
        harmless=tuple(event for log in logs for event in log.harmless),
        curves=tuple(curve for log in logs for curve in log.curves),
        versions={name: version for log in logs for name, version in log.versions.items()},
        root_causes=tuple(each for log in logs for each in log.root_causes),
        ranks=tuple(each for log in logs for each in log.ranks),
        stated=tuple(each for log in logs for each in log.stated),
    )


def with_curves(*curves: Curve) -> Log:
    return Log(files=(LogFile(path="train.log", kind="text"),), curves=curves)


def curve(name: str, values: list[float], path: str = "train.log") -> Curve:
    numbers = [
        value if value == value and abs(value) != float("inf") else str(value) for value in values
    ]
    return Curve(
        name=name,
        path=path,
        steps=tuple(range(1, len(values) + 1)),
        values=tuple(numbers),  # type: ignore[arg-type]
        lines=tuple(range(1, len(values) + 1)),
        points=len(values),
    )


def findings(log: Log | Unknown) -> dict[str, Finding]:
    """Slug -> the finding over this log."""
    facts = Facts(
        job=Job(device="cpu"),
        host=NOT_EXAMINED,
        interpreter=NOT_EXAMINED,
        torch=NOT_EXAMINED,
        places=NOT_EXAMINED,
        log=log,
    )
    return {finding.check.slug: finding for finding in examine(LOG_CHECKS, facts)}


def problems(log: Log) -> dict[str, Status]:
    """Slug -> status of what warns or fails."""
    return {slug: each.status for slug, each in findings(log).items() if each.is_problem}


__all__ = ["LOG_CHECKS", "curve", "findings", "join", "problems", "read", "with_curves"]
