"""Which Python trains: the one whose torch is examined. It need not be the doctor's own.

os.path is used where pathlib raises for a folder that this user may not look into.
"""

from __future__ import annotations

import contextlib
import os
import signal
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
        path = os.path.join(environ.get(variable, ""), "bin", "python")
        if environ.get(variable) and os.path.exists(path):
            return path, f"the active environment, {variable}"
    if _own_torch():
        return sys.executable, "the doctor's own, which has torch"
    for path in _on_path(environ.get("PATH", "")):
        if _has_torch(path):
            return path, "the first python3 on PATH that has torch"
    return sys.executable, "the doctor's own; no python3 on PATH has torch"


def program(asked: str) -> Path:
    """The interpreter that --python names: a program, or an environment's folder."""
    path = os.path.expanduser(asked)
    return Path(path, "bin", "python") if os.path.isdir(path) else Path(path)


def _own_torch() -> bool:
    here = os.path.realpath(os.curdir)
    elsewhere = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]
    spec = PathFinder.find_spec("torch", elsewhere)
    return spec is not None and spec.origin is not None


def _on_path(path: str) -> Iterator[str]:
    own = Path(sys.prefix).resolve()
    for folder in filter(None, path.split(os.pathsep)):
        candidate = os.path.join(folder, "python3")
        if os.path.isfile(candidate) and Path(os.path.realpath(folder)).parent != own:
            yield candidate


def _has_torch(python: str) -> bool:
    """Ask it, in a process group of its own that is gone afterwards."""
    try:
        child = subprocess.Popen(
            [python, "-c", HAS_TORCH],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        return child.wait(SECONDS) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(1)
