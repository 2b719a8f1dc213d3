"""The Python that trains, whose torch is examined. It need not be the doctor's own.

os.path is used where pathlib raises for a directory that this user may not read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path

HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
SECONDS = 10.0


def choose(path: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """The path of the training interpreter, and why it was chosen."""
    if path:
        return str(program(path)), "--python"
    if choice := known(environ):
        return choice
    for candidate in _on_path(environ.get("PATH", "")):
        if _has_torch(candidate):
            return candidate, "the first python3 on PATH that has torch"
    return sys.executable, "the doctor's own; no python3 on PATH has torch"


def known(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The choice where none is named, if no interpreter must be asked for its torch."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        candidate = os.path.join(environ.get(variable, ""), "bin", "python")
        if environ.get(variable) and os.path.exists(candidate):
            return candidate, f"the active environment, {variable}"
    if _own_torch():
        return sys.executable, "the doctor's own, which has torch"
    return None


def program(python: str) -> Path:
    """The absolute path of the interpreter that --python names; it need not exist.

    A path names a file, or the directory of an environment or its bin. A name without a slash that
    is neither is looked up on PATH. Links stay: an environment's python is one.
    """
    path = os.path.expanduser(python)
    for candidate in (os.path.join(path, "bin", "python"), os.path.join(path, "python")):
        if os.path.isfile(candidate):
            return Path(candidate).absolute()
    on_path = None if os.path.dirname(path) else shutil.which(path)
    if on_path is None and os.path.isdir(path):
        on_path = os.path.join(path, "bin", "python")
    return Path(on_path or path).absolute()


def _own_torch() -> bool:
    try:
        here = os.path.realpath(os.curdir)
    except OSError:  # the working directory is gone, which the command itself says
        here = ""
    elsewhere = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]
    spec = PathFinder.find_spec("torch", elsewhere)
    return spec is not None and spec.origin is not None


def _on_path(path: str) -> Iterator[str]:
    own = Path(sys.prefix).resolve()
    for directory in filter(None, path.split(os.pathsep)):
        candidate = os.path.join(directory, "python3")
        if os.path.isfile(candidate) and Path(os.path.realpath(directory)).parent != own:
            yield candidate


def _has_torch(python: str) -> bool:
    """Whether that interpreter finds torch; its process group is killed afterwards."""
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
