"""Which Python trains: the one whose torch is examined. It need not be the doctor's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path

HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
SECONDS = 10.0


def choose(asked: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """The path of the training interpreter, and why it was taken."""
    if asked:
        return str(program(asked)), "--python"
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        path = Path(environ.get(variable, ""), "bin", "python")
        if environ.get(variable) and path.exists():
            return str(path), f"the active environment, {variable}"
    if _own_torch():
        return sys.executable, "the doctor's own, which has torch"
    for path in _on_path(environ.get("PATH", "")):
        if _has_torch(path):
            return str(path), "the first python3 on PATH that has torch"
    return sys.executable, "the doctor's own; no python3 on PATH has torch"


def program(asked: str) -> Path:
    """The interpreter that --python names: a program, or an environment's folder."""
    path = Path(asked).expanduser()
    return path / "bin" / "python" if path.is_dir() else path


def _own_torch() -> bool:
    here = Path.cwd()
    elsewhere = [entry for entry in sys.path if entry and Path(entry) != here]
    spec = PathFinder.find_spec("torch", elsewhere)
    return spec is not None and spec.origin is not None


def _on_path(path: str) -> Iterator[Path]:
    own = Path(sys.prefix).resolve()
    for folder in filter(None, path.split(os.pathsep)):
        candidate = Path(folder, "python3")
        if candidate.is_file() and candidate.parent.resolve().parent != own:
            yield candidate


def _has_torch(python: Path) -> bool:
    try:
        done = subprocess.run(
            [python, "-c", HAS_TORCH],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
