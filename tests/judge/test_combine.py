from __future__ import annotations

from dataclasses import replace

import pytest

from doctor.judge.check import Owner, Status, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.switches import Switch


@pytest.mark.parametrize(
    ("verdicts", "status", "summary"),
    [
        ((ok("a"), ok("b")), Status.PASS, "a; b"),
        ((skip("a"), ok("b")), Status.PASS, "b; a"),
        ((ok("a"), warn("b")), Status.WARN, "b"),
        ((warn("a"), unknown("b")), Status.UNKNOWN, "b; a"),
        ((unknown("a"), fail("b"), ok("c")), Status.FAIL, "b; a"),
    ],
)
def test_the_worst_decides(verdicts: tuple[Verdict, ...], status: Status, summary: str) -> None:
    verdict = worst(*verdicts)
    assert (verdict.status, verdict.summary) == (status, summary)


def test_remedies_are_joined() -> None:
    off = (Switch.NCCL_P2P,)
    one = fail("a", "df -h", fix="One.", owner=Owner.MACHINE, sources=("x",), switches_off=off)
    one = replace(one, seconds=1.0)
    two = warn("b", "df -h", "ls", fix="Two.", sources=("x", "y"), seconds=2.0, switches_off=off)
    verdict = worst(two, one, ok("c", seconds=3.0))
    assert verdict.commands == ("df -h", "ls")
    assert verdict.fix == "One.\nTwo."
    assert verdict.owner is Owner.MACHINE
    assert verdict.sources == ("x", "y")
    assert verdict.seconds == 3.0
    assert verdict.switches_off == off
