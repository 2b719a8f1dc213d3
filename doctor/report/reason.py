"""Why a finding of a log is what it is."""

from __future__ import annotations

from doctor.errors.fitted import fitted
from doctor.errors.index import ENTRIES
from doctor.errors.match import row
from doctor.judge.check import Finding


def reason_of(finding: Finding) -> str:
    """The reason of the row that the failure is named by, else of its class."""
    id = next(iter(finding.verdict.causes), "")
    if id not in ENTRIES:
        return finding.check.why
    text = finding.places[0].text if finding.places else ""
    return fitted(row(id), text).why
