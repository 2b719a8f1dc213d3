"""What the shell is offered, and that nothing is installed for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # starts processes

DOCTOR = [sys.executable, "-m", "doctor"]


def ask(line: str) -> list[str]:
    """What bash would be offered at the end of a line."""
    words = line.split(" ")
    program = str(Path(sys.executable).with_name("doctor"))
    done = subprocess.run(
        [program],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "_DOCTOR_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        timeout=240,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("doctor exp", {"explain"}),
        ("doctor explain JOB00", {f"JOB00{number}" for number in range(1, 10)}),
        ("doctor run --only tf32-se", {"tf32-setting"}),
        ("doctor run --skip DSK", {"DSK001", "DSK002", "DSK003"}),
        ("doctor run --inject vram", {"vram-fits"}),
        ("doctor run --no-conf", {"--no-config"}),
        ("doctor run --output js", {"json=", "jsonl="}),
        ("doctor lint --format sa", {"sarif"}),
        ("doctor help sc", {"scan"}),
    ],
)
def test_commands_flags_and_codes_are_offered(line: str, offered: set[str]) -> None:
    assert set(ask(line)) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_and_nothing_is_written(shell: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*DOCTOR, "completion", shell],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
        timeout=240,
        check=True,
    )
    assert "_DOCTOR_COMPLETE" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_takes_the_script() -> None:
    script = f'eval "$({sys.executable} -m doctor completion bash)"; complete -p doctor'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert "doctor" in done.stdout


def test_the_help_offers_to_install_nothing() -> None:
    done = subprocess.run([*DOCTOR, "--help"], capture_output=True, text=True, check=True)
    assert "install-completion" not in done.stdout
