"""The clock by a time service, and the speed of a core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from doctor.collect import clock

CHRONY = """Reference ID    : A29FC87B (162.159.200.123)
Stratum         : 4
System time     : {} seconds slow of NTP time
Last offset     : -0.000012 seconds
Leap status     : {}
"""
TIMESYNC = """       Server: 10.43.16.1 (10.43.16.1)
         Leap: normal
Root distance: 33.637ms (max: 5s)
       Offset: {}
        Delay: 221us
"""
Answer = Callable[..., None]


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Programs of these names that print these texts."""

    def make(**texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / f"{name}.txt").write_text(text)
            program = tmp_path / name
            program.write_text(f'#!/bin/sh\n/bin/cat "{tmp_path}/{name}.txt"\nexit 1\n')
            program.chmod(0o755)

    monkeypatch.setattr(clock, "PLACES", str(tmp_path))
    return make


@pytest.mark.parametrize(
    ("texts", "service", "offset"),
    [
        ({"chronyc": CHRONY.format("412.000000001", "Normal")}, "chronyc", 412.0),
        ({"chronyc": CHRONY.format("0.000000000", "Not synchronised")}, "chronyc", None),
        ({"chronyc": "506 Cannot talk to daemon\n"}, "", None),
        ({"timedatectl": TIMESYNC.format("+4.523ms")}, "timedatectl", 0.004523),
        ({"timedatectl": TIMESYNC.format("-1min 3.2s")}, "timedatectl", 63.2),
        ({"timedatectl": TIMESYNC.format("n/a")}, "timedatectl", None),
        (
            {"chronyc": "506 Cannot talk to daemon\n", "timedatectl": TIMESYNC.format("+2us")},
            "timedatectl",
            2e-6,
        ),
        ({}, "", None),
    ],
)
def test_the_first_service_that_answers_tells_the_offset(
    answer: Answer, texts: dict[str, str], service: str, offset: float | None
) -> None:
    answer(**texts)
    measured = clock.clock()
    assert measured["clock_service"] == service
    assert measured.get("clock_offset") == (offset and pytest.approx(offset))


@pytest.mark.parametrize("text", ["", "soon", "1fortnight"])
def test_a_time_that_is_none_is_not_guessed(text: str) -> None:
    assert clock.seconds(text) in (None, 0.0)


def test_a_program_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "chronyc"
    program.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(clock, "PLACES", str(tmp_path))
    monkeypatch.setattr(clock, "ANSWER_SECONDS", 0.05)
    assert clock.clock() == {"clock_service": ""}


def test_a_core_is_measured_twice() -> None:
    measured = clock.measure()
    assert measured["core_speed"]
    assert len(measured["core_speed"]) == 2
    assert all(speed > 0 for speed in measured["core_speed"])
    assert measured["busy"] is None or measured["busy"] >= 0
