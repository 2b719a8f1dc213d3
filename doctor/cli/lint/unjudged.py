"""Named files that no rule judges: what is found in them, or is not, says nothing of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

from doctor.checks.script.table import RELEVANT
from doctor.checks.script.training import TESTS, Training
from doctor.facts.script_machine import ScriptMachine
from doctor.report.lint import NOT_JUDGED
from doctor.script.discover import DATA, SHELL, Files
from doctor.script.read import read_script

MOST = 10
"""More named files are those of a hook, which names whatever was changed. Our own number."""


def unjudged(
    named: Sequence[str], files: Files, data: bytes | None, found: Collection[str]
) -> Iterator[str]:
    """One note for each named file without hits that no rule is for."""
    paths = [os.path.normpath(path) for path in named] if data is None else files.scripts
    for path in dict.fromkeys(paths) if len(paths) <= MOST else ():
        if path in found or path not in (*files.scripts, *files.launchers):
            continue
        try:
            reason = _reason(path, files.read(path) if data is None else data)
        except OSError:
            continue
        if reason:
            yield f"{path}{NOT_JUDGED}{reason}"


def _reason(path: str, data: bytes) -> str:
    script = read_script(path, data, relevant=RELEVANT)
    if path.endswith((*DATA, *SHELL)):
        known = "launcher" if path.endswith(SHELL) else "format of a training's configuration"
        return f"no known {known} in it" if script is None else ""
    if script is None or script.unreadable:
        return ""
    reading = Training(script, ScriptMachine())
    if reading.trains or reading.is_part:
        return ""
    if reading.imports_from(*TESTS):
        return "tests do on purpose what a training should not"
    return "it trains nothing and imports no training library that is known"
