"""One run, from flags to a report."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

from doctor import catalog
from doctor._util.records import Unknown
from doctor.catalog import overrides
from doctor.checks.data.seen import FEW
from doctor.cli import own_script
from doctor.cli.examine import collect_facts, replay
from doctor.cli.facts_file import STDIN
from doctor.cli.findings import findings_of
from doctor.cli.inputs import Inputs, resolve
from doctor.cli.options import ConfigFlags
from doctor.cli.scripts import read_scripts
from doctor.facts.data import Data
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.own_model import OwnModel
from doctor.judge.check import Check, Finding, Status
from doctor.judge.engine import examine
from doctor.report.report import FailOn, Report


def run(
    flags: Mapping[str, object],
    config: ConfigFlags,
    *,
    facts_file: Path | None = None,
    fail_on: FailOn = "fail",
    progress: bool = False,
    scripts: tuple[str, ...] = (),
    saved: Facts | None = None,
    held: Mapping[str, int] | None = None,
) -> Report:
    """Examine this machine, or saved facts, and judge them. Raises UserError.

    Keys of `flags` are fields of Job or RunOptions. `scripts` are judged with the machine's facts.
    `saved` are the facts of `facts_file` where it has been read, or facts to judge. `held` is GPU
    memory of the calling process, see `collect_facts`.
    """
    read = read_scripts(scripts) if scripts else None
    among = _checks(with_scripts=bool(scripts), rehearsed=bool(flags.get("rehearse")))
    inputs = resolve(flags, config, facts_file, among, saved)
    if inputs.saved is None:
        facts = collect_facts(inputs.request, progress=progress, held=held)
    else:
        facts = replay(inputs.saved, inputs.request)
    if read is not None:
        facts = facts.with_(scripts=read)
    replayed = "stdin" if facts_file == STDIN else str(facts_file or "")
    of_file = () if read is not None or flags.get("only") else _of_own_file(inputs)
    return _report(facts, inputs, fail_on, replayed, of_file, selected=bool(flags.get("only")))


def _of_own_file(inputs: Inputs) -> tuple[Finding, ...]:
    """What the file of the user's factory shows; of saved facts there is no file."""
    model, skip = inputs.request.job.model, inputs.request.options.skip
    if model is None or inputs.saved is not None:
        return ()
    found = own_script.of_model(model)
    left = catalog.select((), skip, (*inputs.checks, *(each.check for each in found)))
    return tuple(each for each in found if each.check in left)


def _report(
    facts: Facts,
    inputs: Inputs,
    fail_on: FailOn,
    replayed: str,
    of_file: tuple[Finding, ...] = (),
    *,
    selected: bool,
) -> Report:
    host = facts.host.name if isinstance(facts.host, Host) else ""
    today = datetime.date.today()
    # All checks are judged, so that those that are not reported still block others.
    observed = (*findings_of(facts), *_of_scripts(facts), *_of_data(facts), *_of_rehearsal(facts))
    findings = overrides.apply((*observed, *of_file), inputs.policy, host, today)
    codes = {check.code for check in inputs.checks}
    codes |= {each.check.code for each in of_file}
    return Report(
        facts,
        tuple(f for f in findings if f.check.code in codes or _is_added(f, inputs, selected)),
        fail_on,
        replayed=replayed,
        selected=selected,
        config=inputs.config,
        notes=(*inputs.notes, *_unread(facts), *overrides.notes(inputs.policy, host, today)),
    )


def _unread(facts: Facts) -> tuple[str, ...]:
    """Why the loader of the user's model was not judged, and how to do that."""
    model, data = facts.job.model, facts.data
    if not isinstance(data, Unknown) or model is None:
        return ()
    return (f"its loader was not read: {data.reason}; to read it: doctor data {model}",)


def _checks(*, with_scripts: bool, rehearsed: bool) -> tuple[Check, ...]:
    """The checks of a machine, with those of scripts and of a rehearsal where these are judged."""
    of_scripts = _script_checks() if with_scripts else ()
    of_rehearsal = catalog.of_families("RHS") if rehearsed else ()
    return catalog.MACHINE_CHECKS + DATA_CHECKS + of_scripts + of_rehearsal


def _of_rehearsal(facts: Facts) -> tuple[Finding, ...]:
    return examine(catalog.of_families("RHS"), facts) if facts.rehearsal is not None else ()


def _script_checks() -> tuple[Check, ...]:
    return catalog.of_families("SCR")


def _of_scripts(facts: Facts) -> tuple[Finding, ...]:
    return examine(_script_checks(), facts) if facts.scripts is not None else ()


DATA_CHECKS = catalog.of_families("DAT")
OF_A_STEP = ("DAT005", "DAT006", "DAT015")
"""What one batch shows, made by hand or not: shares need more rows, see doctor data."""
NOT_OF_ROWS = ("DAT008",)
"""Not of the model's own loader: equal rows with any class do for a test of the step."""
NOT_OF_FEW_ROWS = (*NOT_OF_ROWS, "DAT009")
"""Nor of fewer than FEW rows, which stand for the data."""


def _of_data(facts: Facts) -> tuple[Finding, ...]:
    """What is known of the data of the user's model: of its loader, else of the step's batch."""
    own = facts.own
    checks = DATA_CHECKS
    if facts.data is None:
        if not isinstance(own, OwnModel) or own.data is None:
            return ()
        facts = facts.with_(data=own.data)
        checks = tuple(each for each in checks if each.code in OF_A_STEP)
    elif facts.job.data is None and facts.job.model is not None:
        left_out = NOT_OF_ROWS if _has_real_rows(facts.data) else NOT_OF_FEW_ROWS
        checks = tuple(each for each in checks if each.code not in left_out)
    found = examine(checks, facts)
    return tuple(each for each in found if each.status is not Status.SKIP and _applies(each, facts))


def _has_real_rows(data: Data | Unknown) -> bool:
    return isinstance(data, Data) and any(split.rows >= FEW for split in data.splits)


def _applies(finding: Finding, facts: Facts) -> bool:
    """Whether it says something of this run: where --data names data, also that it is unknown."""
    return facts.job.data is not None or finding.status is not Status.UNKNOWN


def _is_added(finding: Finding, inputs: Inputs, selected: bool) -> bool:
    """A finding on what saved facts hold and no flag of this run named."""
    return finding.family in ("SCR", "RHS") and inputs.saved is not None and not selected
