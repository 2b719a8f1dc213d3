"""Saved facts, judged again by the command that recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from doctor.cli.facts_file import STDIN, read_facts
from doctor.cli.options import ConfigFlags
from doctor.facts.facts import Facts
from doctor.facts.fleet import Fleet
from doctor.facts.rehearsal import Rehearsal
from doctor.report.report import FailOn, Report


def replayed(
    path: Path, flags: Mapping[str, object], config: ConfigFlags, fail_on: FailOn
) -> Report:
    """The report on a facts file. Raises UserError."""
    report = judge_facts(read_facts(path), flags, config, fail_on)
    return replace(report, replayed="stdin" if path == STDIN else str(path))


def judge_facts(
    facts: Facts, flags: Mapping[str, object], config: ConfigFlags, fail_on: FailOn
) -> Report:
    """The report on facts: on their logs, their checkpoint or their machine. Raises UserError."""
    if facts.subject == "checkpoint":
        from doctor.cli import scan

        return scan.judge(facts, flags, config, fail_on, search=False)
    if isinstance(facts.fleet, Fleet):
        from doctor.cli.fleet import compare

        return compare.judge(facts, flags, config, fail_on, search=False)
    if facts.subject == "training" and isinstance(facts.rehearsal, Rehearsal):
        from doctor.cli import rehearse

        return rehearse.judge(facts, flags, config, fail_on, search=False)
    if facts.subject == "log":
        from doctor.cli import triage

        return triage.judge(facts, flags, config, fail_on, search=False)
    if facts.subject == "data":
        from doctor.cli import data

        return data.judge(facts, flags, config, fail_on, search=False)
    from doctor.cli.run import run

    return run(flags, config, fail_on=fail_on, saved=facts)
