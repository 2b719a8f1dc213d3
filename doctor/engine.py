"""Facts in, findings out: one pass in the written order, pure."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import get_args, get_type_hints

from doctor.facts import Facts
from doctor.model import Check, Finding, Status, Verdict, skip, unknown
from doctor.sections import Interpreter, Unknown

NOT_ASKED = {
    "checkpoint": "no --checkpoint was named",
    "smoke": "left out by --no-smoke",
    "own": "neither --model nor --hf was named",
    "watched": "nothing ran on an NVIDIA GPU",
    "load": "left out by --quick, or nothing ran on a GPU",
    "peers": "the job has one GPU, or --quick left it out",
}


def examine(checks: Iterable[Check], facts: Facts) -> tuple[Finding, ...]:
    """Judge every check. A check that breaks is unknown, and the ones after it go on."""
    findings: list[Finding] = []
    python = facts.interpreter.path if isinstance(facts.interpreter, Interpreter) else "python"
    blocked: dict[str, Status] = {}
    for check in checks:
        verdict = _safely(check, facts, blocked)
        if verdict.status in (Status.FAIL, Status.UNKNOWN):
            blocked[check.code] = verdict.status
        findings.append(Finding(check, verdict, python))
    return tuple(findings)


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
        return unknown(f"not judged: {held[0]} comes first")

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
