"""The scripts of a job, read for `doctor run --script`."""

from __future__ import annotations

import os

from doctor._util.errors import UserError
from doctor._util.regular_file import read_regular
from doctor._util.units import printable
from doctor.facts.script import Script
from doctor.script.read import read_script
from doctor.script.requirements import Requirements
from doctor.script.text import LIMIT
from doctor.script.yaml_numbers import texts_for_numbers


def read_scripts(paths: tuple[str, ...]) -> tuple[Script, ...]:
    """The facts of each script. Raises UserError for one that cannot be read."""
    return tuple(_read(path) for path in dict.fromkeys(paths))


def _read(path: str) -> Script:
    try:
        data = read_regular(path, LIMIT + 1)
    except OSError as error:
        raise UserError(f"--script {path}: {error.strerror or error}") from None
    requirements = Requirements().of(os.path.normpath(path))
    settings = texts_for_numbers(path, data)
    script = read_script(printable(path), data, requirements=requirements, settings=settings)
    if script is None:
        raise UserError(
            f"--script {path} is neither Python, a notebook nor a training configuration"
        )
    return script
