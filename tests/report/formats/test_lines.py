"""Values are data: no value makes a line of its own in any format, whatever it contains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from filled import FAMILIES, filled_facts
from hypothesis import given
from hypothesis import strategies as st
from recorded import machines
from reports import about, finding

from doctor import catalog
from doctor._util.text_fields import map_texts
from doctor.facts.facts import Facts
from doctor.judge.check import Owner, Status
from doctor.judge.engine import examine
from doctor.judge.place import Place
from doctor.report.formats.table import FORMATS, RENDERERS
from doctor.report.redaction import redact
from doctor.report.report import Report

FORGED = ("::pwned::", "READY: forged", "##vso[pwned]")
NEVER_RAW = "\x1b\x07\x00\r\x0b\x85\u2028\u2029\u202e\u2066"
ENDS = st.text(st.sampled_from("\n\r\x0b\x0c\x1c\x85\u2028\u2029\x1b\u202e\x00"), min_size=1)


def with_texts(facts: Facts, change: Callable[[str], str]) -> Facts:
    kinds = ("text", "product", "identifier", "node")
    changed: Facts = map_texts(
        facts,
        {**dict.fromkeys(kinds, change), "arguments": lambda words: tuple(map(change, words))},
    )
    return changed


def report_of(value: str, name: str = "two_cudnns") -> Report:
    """A report in which that text is at every place of others' text."""
    facts = with_texts(machines()[name], lambda text: text + value)
    place = Place(path=f"train{value}.py", line=3, text=value, message=value)
    fields: dict[str, Any] = {"commands": (f"pip {value}",), "places": (place,)}
    made = [finding("NUM004", status, value, **fields) for status in Status]
    return Report(
        facts,
        (*examine(catalog.MACHINE_CHECKS, facts), *made),
        replayed=value,
        config=value,
        notes=(value,),
    )


@given(end=ENDS)
def test_the_number_of_lines_does_not_depend_on_values(end: str) -> None:
    hostile = end.join(["", *FORGED, "x"])
    report = redact(report_of(hostile))
    benign = redact(report_of(hostile.replace(end, "-" * len(end))))
    for format, render in FORMATS.items():
        assert len(render(report).split("\n")) == len(render(benign).split("\n")), format


@pytest.mark.parametrize("end", ["\r\n\x1b", "\x85\u2028\u202e"])
@pytest.mark.parametrize("name", filled_facts())
def test_no_value_of_any_subject_changes_the_number_of_lines(name: str, end: str) -> None:
    if name in ("data", "rows"):  # a sample keeps its line ends, each line behind a bar
        end = end.replace("\n", "")
    hostile = end.join(["", *FORGED, "x"])
    rows = []
    for value in (hostile, hostile.replace(end, "-" * len(end))):
        facts = with_texts(filled_facts()[name], lambda text: text + value)  # noqa: B023
        report = redact(Report(facts, examine(catalog.of_families(*FAMILIES), facts)))
        rows.append({format: len(draw(report).split("\n")) for format, draw in FORMATS.items()})
    assert rows[0] == rows[1]


@pytest.mark.parametrize("name", filled_facts())
def test_no_fact_of_any_subject_forges_a_line(name: str) -> None:
    hostile = "\n".join(["", *FORGED, NEVER_RAW, ""])
    facts = with_texts(filled_facts()[name], lambda text: text + hostile)
    report = Report(facts, examine(catalog.of_families(*FAMILIES), facts))
    texts = [(each, draw(report)) for each, draw in RENDERERS.items()]
    texts += [(each, draw(redact(report))) for each, draw in RENDERERS.items()]
    for format, text in texts:
        with about(format):
            assert not any(line.lstrip().startswith(FORGED) for line in text.split("\n"))
            assert not set(text) & set(NEVER_RAW)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("forged", FORGED)
def test_a_line_end_of_a_value_in_a_fix_forges_no_line(format: str, forged: str) -> None:
    """Fixes have lines of their own, so the value's line end cannot be told from theirs."""
    text = f"use this:\n{forged}"
    made = finding("GPU003", Status.FAIL, "lost", owner=Owner.MACHINE, returns=True)
    verdict = replace(made.verdict, fix=text, also=(text,), commands=(text,))
    report = Report(machines()["two_cudnns"], (replace(made, verdict=verdict),))
    for shown in (report, redact(report)):
        lines = FORMATS[format](shown).split("\n")
        assert not any(line.lstrip().startswith(forged) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", machines())
def test_no_fact_of_a_machine_forges_a_line(format: str, name: str) -> None:
    hostile = "\n".join(["", *FORGED, NEVER_RAW, ""])
    facts = with_texts(machines()[name], lambda text: text + hostile)
    report = Report(facts, examine(catalog.CHECKS, facts))
    for shown in (report, redact(report)):
        text = FORMATS[format](shown)
        assert not any(line.lstrip().startswith(FORGED) for line in text.split("\n"))
        assert not set(text) & set(NEVER_RAW)
