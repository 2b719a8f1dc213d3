"""Interpreters of other versions, where pyenv has installed them."""

from __future__ import annotations

import os
from pathlib import Path

VERSIONS = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"


def installed(*versions: str) -> list[Path]:
    """The interpreters of these versions, such as "3.10"."""
    found = (VERSIONS.glob(f"{version}.*/bin/python") for version in versions)
    return [path for paths in found for path in paths]
