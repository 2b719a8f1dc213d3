"""What holds for every format."""

from __future__ import annotations

import msgspec
import pytest
from recorded import machines
from reports import hostile, judged, report
from samples import REDUCED

from doctor.report.formats.table import FORMATS


def test_every_format_has_samples() -> None:
    assert set(FORMATS) == {*REDUCED, "console"}


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_renders_hostile_text_and_an_empty_report(format: str) -> None:
    assert FORMATS[format](hostile())
    assert FORMATS[format](report()) or format == "jsonl"  # no finding, no line


def test_the_facts_of_a_machine_are_not_changed_by_rendering() -> None:
    facts = machines()["swallowed_updates"]
    before = msgspec.json.encode(facts)
    rendered = judged(facts)
    for render in FORMATS.values():
        render(rendered)
    assert msgspec.json.encode(facts) == before


@pytest.mark.parametrize("format", ["console", "plain", "markdown", "nagios"])
def test_untrusted_text_neither_moves_the_cursor_nor_begins_a_line(format: str) -> None:
    text = FORMATS[format](hostile())
    assert text.replace("\n", "").isprintable()
    assert not [line for line in text.splitlines() if line.startswith(("::error::owned", "::set"))]
