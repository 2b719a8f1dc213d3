"""One run, from flags to a report."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from doctor.cli.examine import collect_facts, replay
from doctor.cli.facts_file import STDIN
from doctor.cli.findings import findings_of
from doctor.cli.inputs import Inputs, resolve
from doctor.cli.options import ConfigFlags
from doctor.facts.facts import Facts
from doctor.facts.machine import Host
from doctor.judge import overrides
from doctor.report.report import FailOn, Report


def run(
    flags: Mapping[str, Any],
    config: ConfigFlags,
    *,
    facts_file: Path | None = None,
    fail_on: FailOn = "fail",
    progress: bool = False,
) -> Report:
    """Examine this machine, or saved facts, and judge them. Raises UserError.

    Keys of `flags` are fields of Job or RunOptions.
    """
    inputs = resolve(flags, config, facts_file)
    if inputs.saved is None:
        facts = collect_facts(inputs.request, progress=progress)
    else:
        facts = replay(inputs.saved, inputs.request)
    replayed = "stdin" if facts_file == STDIN else str(facts_file or "")
    return _report(facts, inputs, fail_on, replayed, selected=bool(flags.get("only")))


def _report(
    facts: Facts, inputs: Inputs, fail_on: FailOn, replayed: str, *, selected: bool
) -> Report:
    host = facts.host.name if isinstance(facts.host, Host) else ""
    today = datetime.date.today()
    # All checks are judged, so that those that are not reported still block others.
    findings = overrides.apply(findings_of(facts), inputs.policy, host, today)
    return Report(
        facts,
        tuple(finding for finding in findings if finding.check in inputs.checks),
        fail_on,
        replayed=replayed,
        selected=selected,
        config=inputs.config,
        notes=(*inputs.notes, *overrides.notes(inputs.policy, host, today)),
    )
