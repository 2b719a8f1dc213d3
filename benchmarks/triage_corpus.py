"""Triage over the corpus of real log excerpts: hits and misses per class.

    python benchmarks/triage_corpus.py [--misses]

tests/corpus/logs.csv was labelled by reading, before the tool ran. A row is a hit if the first
finding that fails or warns has one of the expected classes; harmless and clean rows are hits if
none fails.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from doctor.cli.options import ConfigFlags
from doctor.cli.triage import triage
from doctor.judge.check import Status
from doctor.report.report import Report

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "logs.csv"
NOTHING = "(nothing)"
NAMES = {"no-input-requires-grad": "none-requires-grad", "scaler-collapse": "scaler-at-minimum"}
"""Names of labels -> other names of the same class."""


def rows() -> list[dict[str, str]]:
    with CORPUS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def text_of(row: dict[str, str]) -> str:
    """The excerpt: in the file, a line ends with a backslash and n, and a backslash is doubled."""
    parts = row["lines"].split("\\\\")
    return "\\".join(part.replace("\\n", "\n") for part in parts) + "\n"


def judged(row: dict[str, str], folder: Path) -> Report:
    path = folder / "excerpt.log"
    path.write_text(text_of(row), encoding="utf-8")
    return triage([str(path)], {}, ConfigFlags(no_config=True))


def result(row: dict[str, str], folder: Path) -> tuple[str, int, bool]:
    """The class of the first problem, its line, and whether that is what was expected."""
    report = judged(row, folder)
    problems = [f for f in report.findings if f.is_problem]
    slug = problems[0].check.slug if problems else NOTHING
    line = problems[0].places[0].line if problems and problems[0].places else 0
    if row["kind"] in ("clean", "harmless"):
        return slug, line, not any(f.status is Status.FAIL for f in problems)
    expected = row["expected_class"].split()
    expected += [NAMES[name] for name in expected if name in NAMES]
    return slug, line, slug in expected or (not expected and not problems)


def main() -> None:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    misses: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for row in rows():
            slug, line, is_hit = result(row, Path(name))
            count = counts[row["expected_class"].split(" ")[0] or row["kind"]]
            count[0] += 1
            count[1] += is_hit
            count[2] += is_hit and line == int(row["first_line"])
            if not is_hit or (line != int(row["first_line"]) and row["kind"] == "cause"):
                state = "LINE" if is_hit else "MISS"
                expected = f"{row['expected_class'] or row['kind']}:{row['first_line']}"
                misses.append(f"{state} {row['source']}: expected {expected}, is {slug}:{line}")
    print(f"{'class':32} rows  hits  same line")
    for label, (total, hits, lines) in sorted(counts.items()):
        print(f"{label:32} {total:4} {hits:5} {lines:10}")
    total, hits, lines = (sum(column) for column in zip(*counts.values(), strict=True))
    print(f"{'all':32} {total:4} {hits:5} {lines:10}")
    if "--misses" in sys.argv:
        print("\n".join(misses))


if __name__ == "__main__":
    main()
