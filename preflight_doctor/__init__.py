"""Examine a machine, a checkpoint, training scripts or logs from Python.

    import preflight_doctor

    report = preflight_doctor.scan("runs/llama/checkpoint-200")
    assert report.outcome == "ready", report.verdict_line

Each function returns what the command of the same name reports, and prints and logs nothing. A
mistake of the caller (a path that does not exist, an unknown code, settings that contradict each
other) raises `UserError`; what is wrong with the machine is in the report. docs/python.md has more.

Importing this module imports nothing else: the command `doctor` starts here.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `python -m` in a directory that has a typing.py would import that one

if TYPE_CHECKING:
    from typing import Any

    from preflight_doctor.__main__ import main
    from preflight_doctor._api import (
        Facts,
        Finding,
        NotReadyError,
        Report,
        Settings,
        UserError,
        collect,
        judge,
        lint,
        render,
        run,
        scan,
        triage,
    )

__all__ = [
    "Facts",
    "Finding",
    "NotReadyError",
    "Report",
    "Settings",
    "UserError",
    "collect",
    "judge",
    "lint",
    "main",
    "render",
    "run",
    "scan",
    "triage",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "main":
        from preflight_doctor.__main__ import main

        return main
    from preflight_doctor import _api

    return getattr(_api, name)
