"""All rules over one script, with its suppressions applied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from doctor.checks.script.files import READABLE, SUPPRESSIONS
from doctor.checks.script.reading import MOST_STEPS, TooManySteps
from doctor.checks.script.rule import Match, Rule, Severity, place, severity_of
from doctor.checks.script.table import BY_CODE, RULES
from doctor.checks.script.training import Training
from doctor.facts.script import Script, Span, Suppression
from doctor.facts.script_machine import ScriptMachine
from doctor.judge.place import Place
from doctor.script.inlined import as_written


@dataclass(frozen=True, slots=True)
class Hit:
    """A place and the check it belongs to. `ignored` is the reason of a suppression."""

    code: str
    severity: Severity
    span: Span
    message: str
    undecided: str = ""
    ignored: str = ""
    fix: str = ""

    def place(self, path: str, text: str = "") -> Place:
        return place(Match(self.span, self.message, undecided=self.undecided), path, text)


def lint(
    script: Script,
    machine: ScriptMachine,
    rules: Sequence[Rule] = RULES,
    *,
    reported: Collection[str] = (),
) -> list[Hit]:
    """The hits of one script, by place. `reported`: rules on absences that were reported before."""
    hits = [Hit(READABLE.code, "warn", each.span, each.reason) for each in script.unreadable]
    reading = Training(script, machine)
    joined = Training(script.inlined, machine) if script.inlined is not None else None
    for rule in rules if _was_walked(script) else ():
        if (rule.once and rule.code in reported) or not rule.applies(reading):
            continue
        own = _of_rule(rule, reading)
        if joined is not None and not rule.once:
            seen = {hit.span.line for hit in own} if any(not h.undecided for h in own) else set()
            own += [
                replace(hit, message=as_written(hit.message))
                for hit in _of_rule(rule, joined)
                if not hit.undecided and hit.span.line not in seen
            ]
        hits += own
    hits = _suppressed(hits, script.suppressions, {rule.code for rule in rules})
    return sorted(hits, key=lambda hit: (hit.span.order, hit.code))


def _was_walked(script: Script) -> bool:
    """Whether a rule may find anything: a file without any word of a rule is only parsed."""
    walked = script.settings or script.identifiers or script.calls or script.imports
    return bool(walked) or script.kind == "shell"


def _of_rule(rule: Rule, reading: Training) -> list[Hit]:
    """The hits of one rule; one that raises is undecided, and the others go on."""
    reading.steps = 0
    try:
        return [
            Hit(
                rule.code,
                severity_of(rule, match),
                match.span,
                match.message,
                match.undecided,
                fix=match.fix,
            )
            for match in rule.matches(reading)
        ]
    except TooManySteps:
        reason = f"the rule stops after {MOST_STEPS:,} definitions of one file"
        return [Hit(rule.code, rule.severity, Span(1, 1), f"{rule.slug} is not judged", reason)]
    except (Exception, RecursionError) as error:
        message = "the rule raised an error, please report it"
        return [Hit(rule.code, rule.severity, Span(1, 1), message, repr(error)[:200])]


def _suppressed(
    hits: list[Hit], suppressions: Sequence[Suppression], judged: Collection[str]
) -> list[Hit]:
    """Without the hits that a comment of their first or last line accepts."""
    used: set[Suppression] = set()
    remaining = []
    for hit in hits:
        comment = next((s for s in suppressions if _covers(s, hit)), None)
        if comment is None or not comment.reason:
            remaining.append(hit)
            continue
        used.add(comment)
        remaining.append(replace(hit, ignored=comment.reason))
    for comment in suppressions:
        if problem := _problem(comment, used, judged):
            remaining.append(Hit(SUPPRESSIONS.code, "warn", comment.span, problem))
    return remaining


def _covers(comment: Suppression, hit: Hit) -> bool:
    if comment.span.cell != hit.span.cell:
        return False
    if comment.line not in (hit.span.line, hit.span.end_line):
        return False
    names = {hit.code, BY_CODE[hit.code].slug.upper()} if hit.code in BY_CODE else {hit.code}
    return bool(names & set(comment.codes))


def _problem(comment: Suppression, used: Collection[Suppression], judged: Collection[str]) -> str:
    slugs: Mapping[str, str] = {rule.slug.upper(): rule.code for rule in BY_CODE.values()}
    codes = [slugs.get(code, code) for code in comment.codes]
    if not codes:
        return "a suppression names its codes: # doctor: ignore[SCR101] reason"
    if not comment.reason:
        return "a suppression needs a reason after the bracket"
    if comment not in used and any(code in judged or code not in BY_CODE for code in codes):
        return f"{', '.join(comment.codes)} is not found on this line: remove the suppression"
    return ""
