"""Real log excerpts of others: the first cause is of the class that a reader gave it."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_corpus import is_named, problems, rows, text_of

KNOWN_MISSES = {"verl-project/verl/issues/2987"}
"""Excerpts whose class is not named, or by a class that is newer than the label. What names one has
to take it off this list."""


@pytest.mark.slow
def test_the_first_cause_is_of_the_class_that_a_reader_gave_it(tmp_path: Path) -> None:
    """A foreign class, a failure in a clean log, or a miss that is not known fails here."""
    missed = [row["source"] for row in rows() if not is_named(row, problems(row, tmp_path))]
    assert {source.removeprefix("https://github.com/") for source in missed} == KNOWN_MISSES


def test_every_row_has_a_source_a_label_and_a_line_that_exists() -> None:
    for row in rows():
        assert row["source"].startswith("https://github.com/")
        assert row["kind"] in ("cause", "harmless", "clean", "unknown")
        assert (row["kind"] == "cause") <= bool(row["expected_class"])
        assert 0 <= int(row["first_line"]) <= text_of(row).count("\n")
