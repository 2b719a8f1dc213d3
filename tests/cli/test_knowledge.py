"""`doctor --version -v`: the age of the tables."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from command import doctor

from doctor import __version__
from doctor.cli import knowledge


def test_every_table_has_a_day_that_is_not_in_the_future() -> None:
    days = knowledge.dates()
    assert len(days) == 5
    assert all(date.fromisoformat(day).year >= 2026 for day in days.values())


def test_a_table_is_old_after_a_year() -> None:
    newest = max(map(date.fromisoformat, knowledge.dates().values()))
    assert "note:" not in knowledge.text(newest)
    text = knowledge.text(newest + timedelta(days=400))
    assert "note: older than a year: GPUs and Xids, wheels of torch" in text


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--version", "-v"), ("-v", "-V")])
def test_the_command_prints_them(words: tuple[str, ...]) -> None:
    done = doctor(*words)
    assert done.returncode == 0
    assert done.stdout.startswith(f"doctor {__version__}, Python ")
    assert "wheels of torch" in done.stdout
    assert doctor("--version").stdout == f"doctor {__version__}\n"
