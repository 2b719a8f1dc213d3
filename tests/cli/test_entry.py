"""The command outside the package, beside a distribution whose package has the same name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # starts processes

ROOT = Path(__file__).parents[2]
START = "import preflight_doctor; preflight_doctor.main()"


def start(
    directory: Path, *arguments: str, command: tuple[str, ...] = ("-c", START)
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command, *arguments],
        cwd=directory,
        env={"PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The command, and a package `doctor` whose first file is another distribution's."""
    shutil.copytree(ROOT / "preflight_doctor", tmp_path / "preflight_doctor")
    (tmp_path / "doctor").mkdir()
    (tmp_path / "doctor" / "__init__.py").write_text("import simplejson_that_is_missing\n")
    return tmp_path


@pytest.fixture
def namesake(environment: Path) -> Path:
    """The same, with the metadata of that distribution."""
    metadata = environment / "doctor-3.13.7.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: doctor\nVersion: 3.13.7\n")
    return environment


def is_one_line_about_the_namesake(done: subprocess.CompletedProcess[str]) -> bool:
    return (
        (done.returncode, done.stdout) == (2, "")
        and len(done.stderr.splitlines()) == 1
        and "doctor 3.13.7" in done.stderr
        and "pip uninstall doctor" in done.stderr
    )


@pytest.mark.parametrize("command", [("-c", START), ("-m", "preflight_doctor")])
def test_the_distribution_of_the_same_name_is_one_line(
    namesake: Path, command: tuple[str, ...]
) -> None:
    assert is_one_line_about_the_namesake(start(namesake, "--version", command=command))


@pytest.mark.parametrize("command", [("-c", START), ("-m", "doctor")])
def test_a_namesake_that_can_be_imported_is_one_line_too(
    namesake: Path, command: tuple[str, ...]
) -> None:
    """pip installs its dependencies; then it imports, and brings a version of its own."""
    shutil.copy(ROOT / "doctor" / "__main__.py", namesake / "doctor")
    (namesake / "doctor" / "__init__.py").write_text('__version__ = "3.13.7"\n')
    assert is_one_line_about_the_namesake(start(namesake, "--version", command=command))


@pytest.fixture
def beside_a_module(tmp_path: Path) -> Path:
    """A directory of a user with modules of names that the doctor imports; each leaves a mark."""
    user = tmp_path / "user"
    user.mkdir()
    for name in ("doctor.py", "signal.py", "typing.py", "typer.py"):
        (user / name).write_text("import pathlib; pathlib.Path('mark').touch()\n")
    return user


def test_a_module_of_the_working_directory_is_not_run(beside_a_module: Path) -> None:
    """`python -m` puts the working directory first."""
    done = subprocess.run(
        [sys.executable, "-m", "preflight_doctor", "--version"],
        cwd=beside_a_module,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("doctor ")
    assert not (beside_a_module / "mark").exists()


@pytest.mark.parametrize("kind", ["module", "package", "directory"])
def test_another_module_of_that_name_is_one_line(tmp_path: Path, kind: str) -> None:
    """Where the user puts its directory first, with PYTHONPATH."""
    shutil.copytree(ROOT / "preflight_doctor", tmp_path / "preflight_doctor")
    if kind == "module":
        (tmp_path / "doctor.py").write_text("x = 1\n")
    else:
        (tmp_path / "doctor").mkdir()
    if kind == "package":
        (tmp_path / "doctor" / "__init__.py").write_text("x = 1\n")
    done = start(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "is imported in place of" in line
    assert str(tmp_path / "doctor") in line


def test_another_error_is_not_blamed_on_it(environment: Path) -> None:
    done = start(environment, "--version")
    assert done.returncode == 1
    assert "simplejson_that_is_missing" in done.stderr
    assert "uninstall" not in done.stderr


def test_the_command_runs() -> None:
    done = start(ROOT, "explain", "TOR001")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("TOR001")


def test_python_m_doctor_runs() -> None:
    done = start(ROOT, "--version", command=("-m", "doctor"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("doctor ")


def test_an_interrupt_during_the_import_is_no_traceback(environment: Path) -> None:
    (environment / "doctor" / "__init__.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(600)\n"
    )
    done = start(environment)
    assert (done.returncode, done.stderr) == (130, "")
