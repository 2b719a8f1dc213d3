"""The version of a build: the tag of its commit, else the one in doctor/_version.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

if sys.version_info < (3, 11):  # noqa: UP036 - pip builds, and then reads it
    sys.exit(
        f"doctor: needs Python 3.11 or newer, and this is {sys.version.split()[0]}; `uvx --python "
        "3.12 --from ADDRESS doctor run` brings one and examines the torch of this one"
    )

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
FILE = "doctor/_version.py"
TAG = ["git", "describe", "--tags", "--exact-match", "--match", "v[0-9]*"]


def committed() -> str:
    """The version that a checkout without a tag, and an unpacked sdist, have."""
    return (ROOT / FILE).read_text("utf-8").split('"')[-2]


def version() -> str:
    """The tag v1.2.3 of this commit without its v, else the committed version."""
    if not (ROOT / ".git").exists():
        return committed()
    try:
        tag = subprocess.run(TAG, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    except OSError:
        tag = ""
    return tag.strip().removeprefix("v") or committed()


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Writes the version into what is built; the checkout stays as it is."""

    def initialize(self, version_name: str, build_data: dict[str, Any]) -> None:
        if version_name == "editable" or version() == committed():
            return
        text = (ROOT / FILE).read_text("utf-8")
        copy = Path(mkdtemp()) / "_version.py"
        copy.write_text(re.sub(r'"[^"]*"\n$', f'"{version()}"\n', text), "utf-8")
        build_data["force_include"][str(copy)] = FILE
