"""A prolog prints one line, and fails only for a machine that was seen to be at fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MACHINES = Path(__file__).parent / "machines"


def prolog(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "doctor", "run", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("machine", "code", "said"),
    [
        ("row_remap_failed", 1, "RETURN"),
        ("hung_driver", 1, "RETURN"),
        ("titan_rtx_bf16", 0, "FIX"),
        ("full_disk", 0, "FIX"),
        ("nothing_readable", 0, "UNKNOWN"),
        ("a100", 0, "READY"),
    ],
)
def test_only_a_machine_at_fault_fails(machine: str, code: int, said: str) -> None:
    facts = str(MACHINES / f"{machine}.json")
    got, line = prolog("--context", "prolog", "--facts", facts)
    assert (got, said in line) == (code, True)
    assert line.endswith("the job may start\n") == (code == 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--context=prolog", "--no-such-flag"),
        ("--context", "prolog", "--facts", "no/such/file.json"),
        ("--only", "NOTHING", "--context", "prolog"),
        ("--context=prolog", "--precision", "int3"),
    ],
)
def test_a_mistake_in_the_command_line_lets_the_job_start(arguments: tuple[str, ...]) -> None:
    code, line = prolog(*arguments)
    assert code == 0
    assert line.startswith("doctor: not examined, the job may start: ")
