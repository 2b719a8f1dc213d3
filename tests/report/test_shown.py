"""Samples of the data in a report: they cannot act on a terminal, a page or a CI system."""

from __future__ import annotations

import pytest

from doctor.facts.data import Mark
from doctor.report.formats.html.markup import el
from doctor.report.shown import pieces, text

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
