"""What is installed: one package, one identity a module, and the module that starts the command."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from paths import ROOT

import doctor
from doctor import catalog

PACKAGE = Path(doctor.__file__).parent


def test_no_top_level_checks_is_importable(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import checks"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert b"No module named 'checks'" in done.stderr


def test_the_users_own_checks_folder_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "__init__.py").write_text("mine = True")
    code = "import checks, doctor.checks.gpu; print(checks.mine, doctor.checks.gpu.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "doctor.checks.gpu"]


def test_a_check_module_has_one_identity() -> None:
    assert [name for name in sys.modules if name.split(".")[0] == "checks"] == []
    ours = [module for name, module in sys.modules.items() if name.split(".")[0] == "doctor"]
    links = ("doctor.guard.secrets", "doctor.probes.secrets")
    own = [module for module in ours if module.__name__ not in links]
    # The guard and the probes import nothing of the doctor.
    files = [Path(module.__file__).resolve() for module in own if module.__file__]
    assert len(set(files)) == len(files)
    assert all(check.judge.__module__.startswith("doctor.checks.") for check in catalog.CHECKS)


def test_every_directory_of_modules_is_a_package() -> None:
    """mypy and import-linter leave out what has no __init__.py."""
    directories = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [path for path in directories if not (path / "__init__.py").exists()] == []


def test_the_distribution_is_light_and_has_no_upper_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    plain = project["dependencies"]
    assert {need.split(">")[0] for need in plain} == {
        "msgspec",
        "numpy",
        "nvidia-ml-py",
        "packaging",
        "pathspec",
        "rich",
        "typer",
    }
    assert not any("<" in need or "==" in need for need in plain)


PROBE_FILES = sorted((PACKAGE / "probes").rglob("*.py"))


@pytest.mark.parametrize("probe", PROBE_FILES, ids=lambda path: path.stem)
def test_probes_keep_the_syntax_of_python_3_9_and_import_nothing_of_the_package(
    probe: Path,
) -> None:
    tree = ast.parse(probe.read_text("utf-8"), feature_version=(3, 9))
    if probe.name in ("checkpoint.py",):  # runs under the doctor's own interpreter
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("doctor")
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("doctor") for alias in node.names)


def imported(node: ast.AST) -> set[str]:
    """Top-level names that an import statement brings in."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    return {name.split(".")[0] for name in names}


def test_the_parent_never_imports_torch_or_pynvml_and_numpy_in_functions_only() -> None:
    for path in PACKAGE.rglob("*.py"):
        if "probes" in path.parts or "guard" in path.relative_to(PACKAGE).parts[:1]:
            continue  # they run in the training's interpreter
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            assert not imported(node) & {"torch", "pynvml", "transformers", "safetensors"}, path
        for node in tree.body:
            assert not imported(node) & {"numpy", "fsspec", "aiohttp"}, path


def test_the_type_marker_is_installed() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert importlib.util.find_spec("doctor.checks.gpu")
