"""The labels of public training scripts: complete, of known rules, each place once."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from doctor.checks.script import CHECKS

LABELS = Path(__file__).with_name("scripts.csv")
COLUMNS = ["repository", "path", "commit", "line", "rule", "expected", "why"]
Row = dict[str, str]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with LABELS.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        assert reader.fieldnames == COLUMNS
        return list(reader)


def test_every_field_has_its_form(rows: list[Row]) -> None:
    forms = {
        "repository": r"[\w.-]+/[\w.-]+",
        "path": r"(?!/)(?!.*\.\.).+\.(py|ipynb|json|ya?ml|sh)",
        "commit": r"[0-9a-f]{40}",
        "line": r"(\d+:)?[1-9]\d*|",
        "expected": r"fires|silent|unknown",
        "why": r"\S.*\S",
    }
    wrong = [
        (number, name, row[name])
        for number, row in enumerate(rows, 2)
        for name, form in forms.items()
        if not re.fullmatch(form, row[name])
    ]
    assert not wrong


def test_every_rule_is_of_the_catalogue(rows: list[Row]) -> None:
    known = {slug for check in CHECKS for slug in (check.slug, *check.aliases)}
    assert {row["rule"] for row in rows} - {""} <= known


def test_a_rule_has_one_label_at_a_place(rows: list[Row]) -> None:
    places = Counter((row["repository"], row["path"], row["line"], row["rule"]) for row in rows)
    assert [place for place, count in places.items() if count > 1] == []


def test_a_repository_has_one_commit(rows: list[Row]) -> None:
    commits = defaultdict(set)
    for row in rows:
        commits[row["repository"]].add(row["commit"])
    assert [name for name, its in commits.items() if len(its) > 1] == []


def test_a_file_without_a_rule_is_silent_and_has_one_row(rows: list[Row]) -> None:
    by_file = defaultdict(list)
    for row in rows:
        by_file[row["repository"], row["path"]].append(row)
    for file, its in by_file.items():
        bare = [row for row in its if not row["rule"]]
        if bare:
            assert len(its) == 1, file
            assert (bare[0]["expected"], bare[0]["line"]) == ("silent", ""), file


def test_only_a_notebook_has_cells(rows: list[Row]) -> None:
    cells = {row["path"].endswith(".ipynb") for row in rows if ":" in row["line"]}
    lines = {row["path"].endswith(".ipynb") for row in rows if row["line"].isdecimal()}
    assert (cells, lines) == ({True}, {False})


def test_there_are_enough_files_and_clean_ones_among_them(rows: list[Row]) -> None:
    expected = defaultdict(set)
    for row in rows:
        expected[row["repository"], row["path"]].add(row["expected"])
    clean = [file for file, its in expected.items() if "fires" not in its]
    assert len(expected) >= 200
    assert len(clean) >= len(expected) / 4
