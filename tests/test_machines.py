"""Recorded machines: each gets its verdict. tests/machines has what their reports say."""

from __future__ import annotations

import pytest
from generated import FACTS_FILE, SHOWN
from paths import MACHINES
from recorded import machines
from recorded_outcomes import AREAS, OUTCOMES
from reports import judged

from doctor.facts.facts import encode
from doctor.judge.check import Status

FACTS = machines()
LOUD = (Status.FAIL, Status.WARN, Status.UNKNOWN)


def test_every_machine_belongs_to_one_area() -> None:
    assert sum(len(area) for area in AREAS.values()) == len(OUTCOMES)
    assert set(OUTCOMES) == set(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_a_machine_gets_its_verdict(name: str) -> None:
    assert FACTS[name].origin.startswith(("made from", "recorded"))
    assert judged(FACTS[name]).outcome is OUTCOMES[name]


@pytest.mark.parametrize("name", AREAS["healthy"])
def test_a_healthy_machine_gets_no_warning_failure_or_unknown(name: str) -> None:
    report = judged(FACTS[name])
    assert [f.check.code for f in report.findings if f.status in LOUD] == []


def test_nothing_readable_is_never_healthy() -> None:
    report = judged(FACTS["nothing_readable"])
    assert {finding.status for finding in report.findings} <= {Status.UNKNOWN, Status.SKIP}
    assert report.exit_code == 3


def test_the_only_facts_file_is_the_one_of_the_readme() -> None:
    assert list(MACHINES.glob("*.json")) == [FACTS_FILE]


def test_the_facts_file_of_the_readme_is_as_this_version_writes_it() -> None:
    """Not only read alike: with every field of today."""
    assert FACTS_FILE.read_bytes() == encode(FACTS[SHOWN]), "run .ci/update"
