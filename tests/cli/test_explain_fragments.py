"""Parts of error messages as people paste them, tests/corpus/fragments.csv, labelled before."""

from __future__ import annotations

import csv

import pytest
from paths import TESTS

from doctor._util.errors import UserError
from doctor.cli.explain.name import explain
from doctor.errors.match import with_message
from doctor.report.explain import wrapped

NEAREST = {"Xid 79"}
"""Fragments whose class is the first one of those that are near."""
NONE = ("nothing is known about", "no name; checks in whose texts the words occur")
"""How the answer begins for a message of no class, and for keywords."""


def answered(text: str) -> str:
    try:
        return explain(text)
    except UserError as error:
        return str(error)


def fragments() -> list[tuple[str, str]]:
    with (TESTS / "corpus" / "fragments.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [(row["fragment"].replace("\\x1b", "\x1b"), row["expected"]) for row in rows]


def test_a_distinctive_fragment_is_of_its_class() -> None:
    for fragment, expected in fragments():
        if expected == "nearest":
            continue
        answer = answered(fragment)
        if expected.startswith("harmless:"):
            assert answer.startswith(f"harmless ({expected.removeprefix('harmless:')})"), fragment
        elif fragment in NEAREST:
            assert answer.startswith(NONE), fragment
            assert answer.index(expected) > 0
        else:
            heads = [line.split() for line in answer.splitlines() if line.startswith("LOG")]
            rows = with_message(fragment)  # one that says more is printed instead of its class
            assert heads[0][1] == expected if heads else expected in rows[0].refines, fragment


def test_a_text_that_fits_no_class_is_named_none() -> None:
    for fragment in (text for text, expected in fragments() if expected == "nearest"):
        assert answered(fragment).startswith(NONE), fragment


def test_a_quoted_text_has_its_bar_on_every_line() -> None:
    rows = "\n".join(wrapped("RuntimeError: it fails READY: forged " * 9, "  | ", width=40))
    assert all(line.startswith("  | ") for line in rows.splitlines())
    assert len(rows.splitlines()) > 5


def test_a_message_of_no_class_is_an_error_also_where_checks_are_near_and_a_keyword_is_not() -> (
    None
):
    for text in ("CUDA error: ...", "the frobnicator: it refuses", "cuDNN error: ???"):
        with pytest.raises(UserError, match="nothing is known about"):
            explain(text)
    assert "nearest: " in answered("CUDA error: ...")
    assert explain("persistent workers").startswith(NONE[1])


def test_the_page_of_a_check_or_a_cause_is_an_address() -> None:
    for name, page in (("NUM003", "checks/NUM003.md"), ("layer-size", "#layer-size")):
        last = explain(name).splitlines()[-1]
        assert last.startswith("Page: https://"), last
        assert last.endswith(page)


def test_what_is_harmless_does_not_explain_an_exception_below_it() -> None:
    notice = "[WARNING] Unable to find hostfile, will proceed with training with local resources.\n"
    assert answered(notice).startswith("harmless (")
    known = answered(f"{notice}ValueError: Your setup doesn't support bf16/gpu. You need Ampere")
    assert "device-lacks-feature" in known
    assert not known.startswith("harmless")
    unknown = answered(f"{notice}ValueError: the zebra of row 7 is green")
    assert unknown.startswith(NONE)
