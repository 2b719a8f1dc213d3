"""Parts of error messages as people paste them, tests/corpus/fragments.csv, labelled before."""

from __future__ import annotations

import csv

from paths import TESTS

from doctor._util.errors import UserError
from doctor.cli.explain.name import explain
from doctor.report.explain import wrapped

NEAREST = {"ptxas fatal : Value 'sm_120' is not defined", "Xid 79"}
"""Fragments whose class is the first one of those that are near."""


def fragments() -> list[tuple[str, str]]:
    with (TESTS / "corpus" / "fragments.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [(row["fragment"].replace("\\x1b", "\x1b"), row["expected"]) for row in rows]


def test_a_distinctive_fragment_is_of_its_class() -> None:
    for fragment, expected in fragments():
        if expected == "nearest":
            continue
        answer = explain(fragment)
        if expected.startswith("harmless:"):
            assert answer.startswith(f"harmless ({expected.removeprefix('harmless:')})"), fragment
        elif fragment in NEAREST:
            assert answer.startswith("no class of log lines matches; checks that are near"), (
                fragment
            )
            assert answer.index(expected) > 0
        else:
            heads = [line.split() for line in answer.splitlines() if line.startswith("LOG")]
            assert heads[0][1] == expected, fragment


def test_a_text_that_fits_no_class_is_named_none() -> None:
    for fragment in (text for text, expected in fragments() if expected == "nearest"):
        try:
            answer = explain(fragment)
        except UserError as error:
            answer = str(error)
        assert answer.startswith(("nothing is known", "no class of log lines matches")), fragment


def test_a_quoted_text_has_its_bar_on_every_line() -> None:
    rows = "\n".join(wrapped("RuntimeError: it fails READY: forged " * 9, "  | ", width=40))
    assert all(line.startswith("  | ") for line in rows.splitlines())
    assert len(rows.splitlines()) > 5
