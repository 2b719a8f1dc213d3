"""The command outside the package, beside a distribution whose package has the same name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = "import preflight_doctor; preflight_doctor.main()"


def start(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START, *arguments],
        cwd=directory,
        env={"PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The command, and a package `doctor` whose first file is another distribution's."""
    shutil.copy(ROOT / "preflight_doctor.py", tmp_path)
    (tmp_path / "doctor").mkdir()
    (tmp_path / "doctor" / "__init__.py").write_text("import simplejson_that_is_missing\n")
    return tmp_path


def test_the_distribution_of_the_same_name_is_one_line(environment: Path) -> None:
    metadata = environment / "doctor-3.13.7.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: doctor\nVersion: 3.13.7\n")
    done = start(environment, "--version")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "doctor 3.13.7" in done.stderr
    assert "pip uninstall doctor" in done.stderr


def test_another_error_is_not_blamed_on_it(environment: Path) -> None:
    done = start(environment, "--version")
    assert done.returncode == 1
    assert "simplejson_that_is_missing" in done.stderr
    assert "uninstall" not in done.stderr


def test_the_command_runs() -> None:
    done = start(ROOT, "explain", "TOR001")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("TOR001")


def test_an_interrupt_during_the_import_is_no_traceback(environment: Path) -> None:
    (environment / "doctor" / "__init__.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    done = start(environment)
    assert (done.returncode, done.stderr) == (130, "")
