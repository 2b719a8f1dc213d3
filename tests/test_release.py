"""What is published: the wheel and the sdist, their contents, versions and bytes."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from paths import ROOT
from pythons import installed

import doctor

MISSING = [name for name in ("build", "hatchling") if importlib.util.find_spec(name) is None]
PARTS = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md",
         "checks", "doctor", "preflight_doctor", "man")  # fmt: skip
OLDER = installed("3.8", "3.9", "3.10")

pytestmark = pytest.mark.skipif(
    not (ROOT / "hatch_build.py").exists(), reason="the sources are not at hand"
)
builds = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def copy(folder: Path) -> Path:
    """The sources that a build reads."""
    folder.mkdir()
    for name in PARTS:
        if (ROOT / name).is_dir():
            hidden = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=hidden)
        else:
            shutil.copy(ROOT / name, folder)
    return folder


def build(source: Path, umask: int = 0o022) -> dict[str, Path]:
    """Ending -> archive. The wheel is made from the sdist."""
    command = [sys.executable, "-m", "build", "--no-isolation", "-o", "dist", "."]
    done = subprocess.run(
        command, cwd=source, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.suffix: path for path in (source / "dist").iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(copy(tmp_path_factory.mktemp("build") / "source"))


@builds
@pytest.mark.slow
def test_two_builds_have_equal_bytes(built: dict[str, Path], tmp_path: Path) -> None:
    other = copy(tmp_path / "elsewhere")
    for path in other.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
            os.utime(path, (10**9, 10**9))
    again = build(other, umask=0o077)
    assert again.keys() == built.keys() == {".whl", ".gz"}
    for ending, path in built.items():
        assert again[ending].name == path.name
        assert again[ending].read_bytes() == path.read_bytes()


@builds
@pytest.mark.slow
def test_the_wheel_contains_the_packages_and_nothing_else(built: dict[str, Path]) -> None:
    names = zipfile.ZipFile(built[".whl"]).namelist()
    info = f"preflight_doctor-{doctor.__version__}"
    assert {name.split("/")[0] for name in names} == {
        *("doctor", "preflight_doctor", f"{info}.dist-info", f"{info}.data")
    }
    assert not [name for name in names if re.search(r"pycache|\.orig$|/tests/", name)]
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "checks").rglob("*.py")}
    assert {f"doctor/{module}" for module in modules} <= set(names)
    assert {
        "doctor/errors/index.json",
        "doctor/judge/index.json",
        "doctor/py.typed",
        "preflight_doctor/py.typed",
    } <= set(names)
    assert f"{info}.data/data/share/man/man1/doctor.1" in names
    links = ("doctor/guard/secrets.py", "doctor/probes/secrets.py")
    with zipfile.ZipFile(built[".whl"]) as wheel:
        assert {wheel.read(name) for name in links} == {wheel.read("doctor/_util/secrets.py")}
        points = wheel.read(f"{info}.dist-info/entry_points.txt").decode()
    for script in ("doctor", "preflight-doctor"):
        assert f"\n{script} = preflight_doctor.__main__:main" in points


@builds
@pytest.mark.slow
def test_the_sdist_contains_what_the_wheel_is_built_from(built: dict[str, Path]) -> None:
    with tarfile.open(built[".gz"]) as sdist:
        names = [name.partition("/")[2] for name in sdist.getnames()]
    top = {name.split("/")[0] for name in names}
    assert top == {*PARTS, "PKG-INFO"} - {"checks"}  # which doctor/checks is


@builds
@pytest.mark.slow
def test_the_tag_is_the_version(tmp_path: Path) -> None:
    source = copy(tmp_path / "tagged")
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "test"], ["tag", "v7.8.9"]):
        subprocess.run([*git, *words], cwd=source, check=True)
    built = build(source)
    assert built[".whl"].name.startswith("preflight_doctor-7.8.9-")
    with zipfile.ZipFile(built[".whl"]) as wheel:
        assert '__version__ = "7.8.9"' in wheel.read("doctor/_version.py").decode()
    assert f'"{doctor.__version__}"' in (source / "doctor/_version.py").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.skipif(not OLDER, reason="no older Python below ~/.pyenv/versions")
@pytest.mark.parametrize("program", ["preflight_doctor/__main__.py", "hatch_build.py"])
def test_an_older_python_is_refused_in_one_line_that_names_uvx(program: str) -> None:
    for python in OLDER:
        command = [python, "-B", ROOT / program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert re.fullmatch(r".*needs Python 3\.11 or newer.*`uvx .*\n", done.stderr)


def test_every_extra_is_a_part_of_all() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    users = sorted(extras.keys() - {"all", "site", "test", "release"})
    assert everything == f"preflight-doctor[{','.join(users)}]"


def test_the_changelog_begins_with_this_version() -> None:
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert heading
    assert heading[1] == doctor.__version__


def test_every_dependency_has_its_licence_in_the_documents() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    page = (ROOT / "docs/releasing.md").read_text("utf-8")
    listed = re.findall(r"^\| ([a-z-]+) \| \S.* \| \S.* \|$", page, re.M)
    needs = [re.split(r"[<>=]", need)[0] for need in project["dependencies"]]
    assert [name for name in listed if name in needs] == needs


def test_the_citation_has_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {doctor.__version__}\n" in text


def test_the_recipe_for_conda_has_the_requirements_and_scripts_of_the_package(
    tmp_path: Path,
) -> None:
    import yaml

    sdist = tmp_path / f"preflight_doctor-{doctor.__version__}.tar.gz"
    sdist.write_bytes(b"x")
    made = runpy.run_path(str(ROOT / "release/conda_recipe.py"))["recipe"](sdist)
    read = yaml.safe_load(made)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needs = [line.replace(" ", "") for line in read["requirements"]["run"][1:]]
    assert needs == project["dependencies"]
    points = [each.split(" = ") for each in read["build"]["python"]["entry_points"]]
    assert dict(points) == project["scripts"]
    assert read["context"]["version"] == doctor.__version__
    assert read["source"]["sha256"] == hashlib.sha256(b"x").hexdigest()
