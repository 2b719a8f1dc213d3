"""The start of doctor.pyz: an environment for the doctor, or one line where none is possible."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT
from pythons import installed

pytestmark = pytest.mark.skipif(
    not (ROOT / "release").exists(), reason="the sources are not at hand"
)
MAIN = b"import os, sys; print(sys.prefix, os.environ['DOCTOR_PYTHON'], *sys.argv[1:])"


def archive(folder: Path, part: str) -> Path:
    """A file with that part, and a program that prints where it runs."""
    program = runpy.run_path(str(ROOT / "release/one_file.py"))
    path = folder / "doctor.pyz"
    files = {
        "packages/preflight_doctor/__init__.py": b"",
        "packages/preflight_doctor/__main__.py": MAIN,
    }
    program["write"](path, {f"parts/{part}/compiled.py": b"", **files})
    return path


def own_part() -> str:
    start = runpy.run_path(str(ROOT / "release/start.py"))
    return f"{start['interpreter']()}_{start['system']()}"


def start(python: Path | str, file: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    unset = ("VIRTUAL_ENV", "CONDA_PREFIX", "DOCTOR_PYTHON", "PYTHONPATH")
    environ = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        [python, file, "run", "--device", "cpu"],
        env=environ | {"XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_it_runs_in_an_environment_of_its_own_and_examines_the_python_that_started_it(
    tmp_path: Path,
) -> None:
    file = archive(tmp_path, own_part())
    for _ in range(2):  # the second time from the cache
        done = start(sys.executable, file, tmp_path / "cache")
        assert done.returncode == 0, done.stderr
        prefix, python, *words = done.stdout.split()
        assert Path(prefix).parent == tmp_path / "cache/preflight-doctor"
        assert (python, words) == (sys.executable, ["run", "--device", "cpu"])
    (home,) = (tmp_path / "cache/preflight-doctor").iterdir()
    assert home.stat().st_mode & 0o777 == 0o700
    (numpy,) = home.glob("lib/*/site-packages/numpy")
    assert numpy.is_symlink()


@pytest.mark.slow
def test_a_cache_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    file = archive(tmp_path, own_part())
    cache = tmp_path / "cache/preflight-doctor"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    done = start(sys.executable, file, tmp_path / "cache")
    assert str(cache) not in done.stdout
    assert list(cache.iterdir()) == []


@pytest.mark.slow
def test_another_python_is_refused_in_one_line(tmp_path: Path) -> None:
    file = archive(tmp_path, "CPython 3.99_linux-x86_64")
    for python in [Path(sys.executable), *installed("2.7", "3.6", "3.10")]:
        done = start(python, file, tmp_path / "cache")
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("doctor: this file serves CPython 3.99 on linux-x86_64, and this is")
        assert "`uvx --python 3.12" in line
