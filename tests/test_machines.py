"""Recorded machines: each gets its verdict. tests/machines has what their reports say."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated import FACTS_FILE, SHOWN
from paths import MACHINES
from recorded import machines
from recorded_outcomes import AREAS, OUTCOMES
from reports import judged

from doctor.facts.facts import Facts, decode, encode
from doctor.judge.check import Status

FACTS = machines()
OLD_FILES = sorted((MACHINES / "version_1").glob("*.json"))
LAST_CODES = {
    "JOB": 10, "DRV": 2, "TOR": 4, "GPU": 8, "NUM": 5, "MEM": 3, "DSK": 2, "CKP": 11, "SMK": 10,
}  # fmt: skip
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


@pytest.mark.parametrize("path", OLD_FILES, ids=lambda path: path.stem)
def test_a_facts_file_of_an_older_release_is_judged_the_same(path: Path) -> None:
    """These files stay as they are: fields and values that are renamed since are still read."""
    assert statuses(decode(path.read_bytes())) == statuses(FACTS[path.stem])


def statuses(facts: Facts) -> dict[str, Status]:
    """Of the checks that existed when the files were written."""
    return {
        f.check.code: f.status
        for f in judged(facts).findings
        if int(f.check.code[3:]) <= LAST_CODES.get(f.family, 0)
    }
