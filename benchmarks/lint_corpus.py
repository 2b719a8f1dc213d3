"""Precision and recall of `doctor lint` on labelled public scripts.

`python benchmarks/lint_corpus.py COPIES` reads tests/corpus/scripts.csv, lints COPIES/OWNER/NAME of
each repository by itself and prints, per rule, what was right, the false alarms and the misses.
`--fetch` first brings what is missing in COPIES from GitHub, at the labelled commits.

A complaint meets a label of its rule where the label's line lies in the complaint's place or at
most LINES away. A label `unknown` counts neither way; a complaint without a label is a false alarm,
for every line of every labelled file was read. Rules in UNLABELLED tell what is absent from a whole
program, or depend on the installed versions.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LABELS = ROOT / "tests" / "corpus" / "scripts.csv"
LINES = 3
UNLABELLED = {
    "tf32-not-set", "seed-not-set", "finiteness-not-tested", "warm-up-not-set", "clipping-not-set",
    "gradient-norm-not-logged", "nan-filter-hides-loss", "checkpoint-dtype-full-finetune",
    "suppression-used",
}  # fmt: skip
NEWER = re.compile("SCR(?:16[3-9]|2)")
"""Codes of rules that the labels are older than."""
COMPLAINTS = {"note", "warn", "fail"}


@dataclass(frozen=True)
class Label:
    """What a reader expects of one rule at one place of a file."""

    repository: str
    path: str
    cell: int
    line: int
    rule: str
    expected: str
    why: str


@dataclass(frozen=True)
class Complaint:
    """What the linter says of one place of a file."""

    repository: str
    path: str
    cell: int
    line: int
    end_line: int
    rule: str
    text: str

    def meets(self, label: Label) -> bool:
        same = (self.repository, self.path, self.cell, self.rule) == (
            label.repository, label.path, label.cell, label.rule,
        )  # fmt: skip
        return same and self.line - LINES <= label.line <= self.end_line + LINES

    def distance(self, label: Label) -> int:
        return max(self.line - label.line, label.line - self.end_line, 0)


@dataclass(frozen=True)
class Outcome:
    """Complaints that are right, false alarms with a reason, and labels that nothing met."""

    right: list[Complaint]
    false_alarms: list[tuple[Complaint, str]]
    missed: list[Label]


def labels(path: Path) -> tuple[list[Label], dict[str, str]]:
    """The labels of a file of them, and the commit of each repository."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    read = [_label(row) for row in rows]
    return read, {row["repository"]: row["commit"] for row in rows}


def _label(row: dict[str, str]) -> Label:
    cell, _, line = row["line"].rpartition(":")
    return Label(
        row["repository"], row["path"], int(cell or 0), int(line or 0),
        row["rule"], row["expected"], row["why"],
    )  # fmt: skip


def fetched(repository: str, commit: str, paths: Iterable[str], copies: Path) -> None:
    """Brings the labelled files of one repository that are not there yet."""
    folder = copies / repository
    wanted = sorted({path for path in paths if not (folder / path).exists()})
    if not wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    address = f"https://github.com/{repository}"
    for command in (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth", "1", address, commit],
        ["checkout", "--quiet", "FETCH_HEAD", "--", *wanted],
    ):
        if subprocess.run(["git", "-C", str(folder), *command]).returncode:
            print(f"{repository}: not fetched", file=sys.stderr)
            return


def complaints(repository: str, paths: set[str], copies: Path) -> list[Complaint]:
    """What `doctor lint` says of the labelled files of one repository, once per line and rule.

    Ends the program where the linter gives no report: its misses would not be those of a rule.
    """
    command = [sys.executable, "-P", "-m", "doctor", "lint", *sorted(paths), "--format", "json"]
    done = subprocess.run(command, cwd=copies / repository, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{repository}: no report\n{done.stderr.strip()}")
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    read = [
        Complaint(
            repository, place["path"], place.get("cell", 0), place["line"],
            place.get("end_line", place["line"]), finding["slug"], place.get("text", "").strip(),
        )
        for finding in findings
        if finding["status"] in COMPLAINTS and finding["slug"] not in UNLABELLED
        and not NEWER.match(finding["code"])
        for place in finding.get("places", [])
    ]  # fmt: skip
    return list(dict.fromkeys(read))


def compared(expected: list[Label], actual: list[Complaint]) -> Outcome:
    """Each complaint meets the nearest free label of its rule; `fires` before the others."""
    order = {"fires": 0, "unknown": 1, "silent": 2}
    free = list(expected)
    right: list[Complaint] = []
    false_alarms: list[tuple[Complaint, str]] = []
    for complaint in sorted(actual, key=lambda one: (one.path, one.cell, one.line)):
        near = [label for label in free if complaint.meets(label)]
        if not near:
            false_alarms.append((complaint, "no label"))
            continue
        label = min(near, key=lambda one: (complaint.distance(one), order[one.expected]))
        if label.expected == "fires":
            right.append(complaint)
            free.remove(label)
        elif label.expected == "silent":
            false_alarms.append((complaint, label.why))
    missed = [label for label in free if label.expected == "fires"]
    return Outcome(right, false_alarms, missed)


def table(outcome: Outcome) -> str:
    """Precision and recall per rule and over all of them."""
    right = Counter(complaint.rule for complaint in outcome.right)
    wrong = Counter(complaint.rule for complaint, _ in outcome.false_alarms)
    missed = Counter(label.rule for label in outcome.missed)
    rules = sorted({*right, *wrong, *missed}, key=lambda rule: (-right[rule] - missed[rule], rule))
    lines = [f"{'rule':34} {'true':>5} {'right':>5} {'false':>5} {'missed':>6} precision recall"]
    for rule in rules:
        lines.append(_row(rule, right[rule], wrong[rule], missed[rule]))
    lines.append(_row("all", right.total(), wrong.total(), missed.total()))
    return "\n".join(lines)


def _row(name: str, right: int, wrong: int, missed: int) -> str:
    precision = f"{right / (right + wrong):.2f}" if right + wrong else "-"
    recall = f"{right / (right + missed):.2f}" if right + missed else "-"
    counts = f"{right + missed:5} {right:5} {wrong:5} {missed:6}"
    return f"{name:34} {counts} {precision:>9} {recall:>6}"


def _place(item: Complaint | Label) -> str:
    line = f"{item.cell}:{item.line}" if item.cell else str(item.line)
    return f"{item.repository}/{item.path}:{line}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("copies", type=Path)
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--fetch", action="store_true")
    options = parser.parse_args()
    expected, commits = labels(options.labels)
    paths: dict[str, set[str]] = defaultdict(set)
    for label in expected:
        paths[label.repository].add(label.path)
    actual: list[Complaint] = []
    for repository, commit in commits.items():
        folder = options.copies / repository
        if options.fetch:
            fetched(repository, commit, paths[repository], options.copies)
        absent = {path for path in paths[repository] if not (folder / path).exists()}
        if absent:
            print(f"{repository}: {len(absent)} files are not there", file=sys.stderr)
            paths[repository] -= absent
        if paths[repository]:
            actual += complaints(repository, paths[repository], options.copies)
    there = [one for one in expected if one.rule and one.path in paths[one.repository]]
    outcome = compared(there, actual)
    print(f"{sum(map(len, paths.values()))} files of {len(commits)} repositories\n")
    print(table(outcome))
    print("\nfalse alarms")
    for complaint, why in sorted(outcome.false_alarms, key=lambda one: one[0].rule):
        print(f"  {complaint.rule}  {_place(complaint)}  {why}\n      {complaint.text[:100]}")
    print("\nmissed")
    for label in sorted(outcome.missed, key=lambda one: one.rule):
        print(f"  {label.rule}  {_place(label)}  {label.why}")


if __name__ == "__main__":
    main()
