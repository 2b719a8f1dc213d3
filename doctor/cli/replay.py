"""Saved facts, judged again by the command that recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from doctor.cli.facts_file import STDIN, read_facts
from doctor.cli.options import ConfigFlags
from doctor.report.report import FailOn, Report


def replayed(path: Path, flags: Mapping[str, Any], config: ConfigFlags, fail_on: FailOn) -> Report:
    """The report on a facts file: on its logs, its checkpoint or its machine.

    Raises UserError.
    """
    saved = read_facts(path)
    name = "stdin" if path == STDIN else str(path)
    if saved.subject == "checkpoint":
        from doctor.cli import scan

        return scan.judge(saved, flags, config, fail_on, replayed=name)
    if saved.subject == "log":
        from doctor.cli import triage

        return triage.judge(saved, flags, config, fail_on, replayed=name)
    from doctor.cli.run import run

    return run(flags, config, facts_file=path, fail_on=fail_on, saved=saved)
