"""Real log excerpts of others, tests/corpus/logs.csv, labelled by reading before the tool ran."""

from __future__ import annotations

import csv
from pathlib import Path

from paths import TESTS

from doctor.cli.options import ConfigFlags
from doctor.cli.triage import triage
from doctor.judge.check import Finding, Status

NAMES = {
    "no-input-requires-grad": "none-requires-grad",
    "loss-nan": "gradient-nonfinite",
    "loss-nonfinite": "stopped-at-nan",
    "ddp-unused-parameters": "collective-mismatch",
}
"""Names of labels -> other names of the same class."""

Row = dict[str, str]


def rows() -> list[Row]:
    with (TESTS / "corpus" / "logs.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def text_of(row: Row) -> str:
    """The excerpt: in the file, a line ends with a backslash and n, and a backslash is doubled."""
    parts = row["lines"].split("\\\\")
    return "\\".join(part.replace("\\n", "\n") for part in parts) + "\n"


def problems(row: Row, folder: Path) -> list[Finding]:
    """What triage warns of or fails, the first cause first."""
    path = folder / "excerpt.log"
    path.write_text(text_of(row), encoding="utf-8")
    report = triage([str(path)], {}, ConfigFlags(no_config=True))
    return [finding for finding in report.findings if finding.is_problem]


def is_named(row: Row, findings: list[Finding]) -> bool:
    """Whether the first problem has an expected class; a clean or harmless row has no failure."""
    if row["kind"] in ("clean", "harmless"):
        return not any(finding.status is Status.FAIL for finding in findings)
    expected = row["expected_class"].split()
    expected += [NAMES[name] for name in expected if name in NAMES]
    return findings[0].check.slug in expected if findings else not expected
