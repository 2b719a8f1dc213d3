"""The result of `doctor scan`, to be rendered."""

from __future__ import annotations

from dataclasses import dataclass, replace

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.report.redaction import redact
from doctor.report.report import Report

Row = tuple[str, str, list[int], str, int]
"""Name, dtype, shape, file and bytes of a tensor."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The report on a checkpoint, and its tensors where they are listed."""

    report: Report
    rows: tuple[Row, ...] | None = None
    """None: --all was not given."""

    def redacted(self, *, keep_names: bool) -> Scan:
        """A copy that may be published."""
        return replace(self, report=redact(self.report, keep_names=keep_names))

    @property
    def path(self) -> str:
        return self.report.facts.job.checkpoint or ""

    @property
    def checkpoint(self) -> Checkpoint | Unknown:
        return self.report.facts.checkpoint or Unknown(reason="no checkpoint was examined")
