"""Facts in, findings out: one pure pass, each check after those that it depends on."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from graphlib import TopologicalSorter
from typing import get_args, get_type_hints

from doctor._util.records import Unknown
from doctor.facts.facts import Facts
from doctor.facts.machine import Interpreter
from doctor.judge.check import Check, Finding, Status, Verdict, skip, unknown

NOT_ASKED = {
    "checkpoint": "no --checkpoint was named",
    "smoke": "left out by --no-smoke",
    "own": "neither --model nor --hf was named",
    "watched": "nothing ran on an NVIDIA GPU",
    "load": "left out by --quick, or nothing ran on a GPU",
    "peers": "the job has one GPU, or --quick left it out",
}


def examine(checks: Sequence[Check], facts: Facts) -> tuple[Finding, ...]:
    """Judge every check; findings come in the order of `checks`.

    A check that breaks is unknown, and the others go on. Raises graphlib.CycleError where checks
    depend on each other in a circle.
    """
    interpreter = facts.interpreter if isinstance(facts.interpreter, Interpreter) else None
    python = interpreter.path if interpreter else "python"
    pip = interpreter is None or interpreter.pip is not False
    verdicts: dict[str, Verdict] = {}
    blocked: dict[str, Status] = {}
    for check in _by_dependency(checks):
        verdict = verdicts[check.code] = _safely(check, facts, blocked)
        if verdict.status in (Status.FAIL, Status.UNKNOWN):
            blocked[check.code] = verdict.status
    return tuple(Finding(check, verdicts[check.code], python, pip) for check in checks)


def _by_dependency(checks: Sequence[Check]) -> list[Check]:
    """Each check after those in its `after`; names that are not among `checks` do not count."""
    by_code = {check.code: check for check in checks}
    order = TopologicalSorter({check.code: check.after for check in checks}).static_order()
    return [by_code[code] for code in order if code in by_code]


def _safely(check: Check, facts: Facts, blocked: dict[str, Status]) -> Verdict:
    try:
        return _judge(check, facts, blocked)
    except Exception as error:
        return unknown(f"the check itself broke, please report it: {error!r}")


def _judge(check: Check, facts: Facts, blocked: dict[str, Status]) -> Verdict:
    kind = facts.target.kind
    if kind not in check.targets:
        return skip(f"only for {' and '.join(check.targets)}; this job trains on {kind}")
    if held := [code for code in check.after if code in blocked]:
        state = "failed" if blocked[held[0]] is Status.FAIL else "unknown"
        return unknown(f"not evaluated: depends on {held[0]} ({state})")

    hints = get_type_hints(check.judge)
    sections = {name: getattr(facts, name) for name in inspect.signature(check.judge).parameters}
    for name, value in sections.items():
        admitted = get_args(hints[name])
        if value is None and name in facts.job.left_out:
            return skip(f"left out by --budget {facts.job.budget:g}")
        if value is None and type(None) not in admitted:
            return skip(NOT_ASKED.get(name, f"the job does not ask for {name}"))
        if isinstance(value, Unknown) and Unknown not in admitted:
            return unknown(f"could not be read: {value.reason}")

    return check.judge(**sections)
