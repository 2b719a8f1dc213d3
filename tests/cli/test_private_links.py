"""Links that another user leaves where the doctor writes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command import doctor

pytestmark = pytest.mark.slow  # starts processes


def test_a_link_in_the_directory_of_the_records_is_replaced(tmp_path: Path) -> None:
    records, victim = tmp_path / "records", tmp_path / "victim"
    records.mkdir()
    victim.write_text("mine")
    for name in ("run.json", "gpus.json"):
        (records / name).symlink_to(victim)
    command = ("--", sys.executable, "-S", "-c", "raise SystemExit(0)")
    doctor("guard", "--output-dir", records, *command, cwd=tmp_path)
    assert victim.read_text() == "mine"
    assert '"exit_code": 0' in (records / "run.json").read_text()
    assert not (records / "run.json").is_symlink()
