"""Facts in, findings out: one pure pass, each check after those that it depends on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from graphlib import TopologicalSorter
from typing import get_args, get_type_hints

from doctor._util.records import Unknown
from doctor.facts.facts import Facts
from doctor.facts.interpreter import Interpreter
from doctor.judge.check import Check, Finding, Status, Verdict, skip, unknown

BROKEN = "the check raised an error, please report it"
"""How the summary of a check begins whose judge raised."""


def examine(checks: Sequence[Check], facts: Facts) -> tuple[Finding, ...]:
    """Judge every check; findings come in the order of `checks`.

    A check that raises is unknown, and the others go on. Raises graphlib.CycleError for circular
    dependencies.
    """
    interpreter = facts.interpreter if isinstance(facts.interpreter, Interpreter) else None
    python = interpreter.path if interpreter else "python"
    pip = interpreter is None or interpreter.pip is not False
    uv = interpreter is None or interpreter.uv is not False
    verdicts: dict[str, Verdict] = {}
    blocked: dict[str, Status] = {}
    for check in _by_dependency(checks):
        verdict = verdicts[check.code] = _safely(check, facts, blocked)
        if verdict.status in (Status.FAIL, Status.UNKNOWN):
            blocked[check.code] = verdict.status
    return tuple(Finding(check, verdicts[check.code], python, pip, uv) for check in checks)


def _by_dependency(checks: Sequence[Check]) -> list[Check]:
    """Each check after those in its `after`; codes that are not in `checks` are disregarded."""
    by_code = {check.code: check for check in checks}
    order = TopologicalSorter({check.code: check.after for check in checks}).static_order()
    return [by_code[code] for code in order if code in by_code]


def _safely(check: Check, facts: Facts, blocked: dict[str, Status]) -> Verdict:
    try:
        return _judge(check, facts, blocked)
    except Exception as error:
        return unknown(f"{BROKEN}: {error!r}")


def _judge(check: Check, facts: Facts, blocked: dict[str, Status]) -> Verdict:
    kind = facts.target.kind
    if kind not in check.targets:
        return skip(f"only for {' and '.join(check.targets)}; this job trains on {kind}")
    sections = {name: getattr(facts, name) for name in _accepted(check.judge)}
    absent = [name for name, section in sections.items() if section is None]
    if omitted := [name for name in absent if name in facts.options.omitted]:
        return skip(facts.reason_absent(omitted[0]))
    if blocking := [code for code in check.after if code in blocked]:
        outcome = "failed" if blocked[blocking[0]] is Status.FAIL else "unknown"
        return unknown(f"not evaluated: depends on {blocking[0]} ({outcome})")
    return _missing(check, facts, sections) or check.judge(**sections)


def _missing(check: Check, facts: Facts, sections: Mapping[str, object]) -> Verdict | None:
    """The verdict where a section is absent or unknown and the judge does not accept that."""
    for name, section in sections.items():
        accepted = _accepted(check.judge)[name]
        if section is None and type(None) not in accepted:
            return skip(facts.reason_absent(name))
        if isinstance(section, Unknown) and Unknown not in accepted:
            return unknown(f"could not be read: {section.reason}")
    return None


@cache
def _accepted(judge: Callable[..., Verdict]) -> dict[str, tuple[object, ...]]:
    """Section -> the types of the union that the judge's annotation admits; () for one type."""
    hints = get_type_hints(judge)
    return {name: get_args(hints[name]) for name in inspect.signature(judge).parameters}
