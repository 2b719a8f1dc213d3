"""Samples of the data in a report: they cannot act on a terminal, a page or a CI system."""

from __future__ import annotations

import pytest

from doctor.facts.data import Labels, Lengths, Mark, Split
from doctor.facts.data_batches import Mixing
from doctor.report.formats.html.markup import el
from doctor.report.shown import overview, pieces, text

HOSTILE = "\x1b[31mred ::error::x \u202e<script>alert(1)</script>\r\x07"


def test_what_a_sample_holds_is_escaped() -> None:
    made = text(Mark(text=HOSTILE, role="trained"))
    assert made.isprintable()
    assert "::" not in made
    assert "<script>" not in str(el("pre", made))


@pytest.mark.parametrize(
    ("content", "lines"),
    [("a\nb", ["a\\n", "b"]), ("a\n", ["a\\n"]), ("a", ["a"]), ("\n\n", ["\\n", "\\n"])],
)
def test_line_ends_are_written_and_break_the_line(content: str, lines: list[str]) -> None:
    assert pieces(Mark(text=content, role="context")) == lines


def test_lengths_classes_and_dropped_rows_are_drawn() -> None:
    split = Split(
        name="train",
        kind="loader",
        lengths=Lengths(p50=30, p95=60, longest=64, histogram=((16, 0), (32, 10), (64, 20))),
        uncut=Lengths(p50=40, p95=80, longest=900),
        labels=Labels(objective="next token", documents=30, dropped=4),
        mixing=Mixing(samples=30, classes=2, counts={"1": 20, "0\x1b": 10}),
    )
    lines = list(overview(split))
    assert lines[1:3] == [f"  up to 32 {'#' * 20} 10", f"  up to 64 {'#' * 40} 20"]
    assert "before the cut of a document: median 40, p95 80, longest 900" in lines[3]
    assert lines[-1].endswith("left out: 4")
    assert all(line.isprintable() for line in lines)
