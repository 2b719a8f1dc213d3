"""A rule: one check of a script, with the function that finds its places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from doctor.checks.script.remedies import remedy_of
from doctor.checks.script.training import Training
from doctor.facts.script import Script, Span
from doctor.facts.script_machine import ScriptMachine
from doctor.judge.check import Check, Owner, Status, Verdict, unknown
from doctor.judge.place import Place
from doctor.script.fixes.makers import Fix

Severity = Literal["fail", "warn", "note"]
STATUSES = {"fail": Status.FAIL, "warn": Status.WARN, "note": Status.NOTE}
RANK = ("note", "warn", "fail")
CODE = ("python", "notebook")
CONFIGURATION = ("deepspeed", "accelerate", "trainer", "axolotl", "factory")


@dataclass(frozen=True, slots=True)
class Match:
    """One place. `undecided` says why the file does not decide it, "" if it does."""

    span: Span
    message: str
    severity: Severity | None = None
    """Where it differs from the rule's."""
    undecided: str = ""
    fix: str = ""
    """The remedy of this case, where the rule's names those of others, too."""


Find = Callable[[Training], Iterable[Match]]


def each_of(*finds: Find) -> Find:
    """The places that several functions find, one function after the other."""
    return lambda reading: (match for find in finds for match in find(reading))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What `doctor explain` prints, and `find`, which judges one script.

    `once`: something that is merely absent, reported for the first script of a run only.
    `training`: applies only to files that train, as what they set or leave out matters there.
    `words`: regular expressions, one of which occurs on a line of each Python file that it may
    fire in; a rule without any is judged on the parts of a training, too: a model, a loss or a
    dataset in a file of its own.
    """

    code: str
    slug: str
    title: str
    severity: Severity
    find: Find
    why: str
    fires: tuple[str, ...]
    fix: str
    sources: tuple[str, ...]
    limits: str = "that options which are decided in another file are right."
    kinds: tuple[str, ...] = CODE
    training: bool = False
    once: bool = False
    fixes: Fix | None = None
    words: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Names of which one occurs in every file that it may fire in: most rules end here."""
    errors: tuple[str, ...] = ()
    """Conditions that make it a failure where `severity` is lower."""

    def matches(self, reading: Training) -> list[Match]:
        """The places of one script that the rule applies to, in order."""
        found = [
            replace(m, fix=m.fix or remedy_of(self.code, m.message)) for m in self.find(reading)
        ]
        return sorted(dict.fromkeys(found), key=lambda m: m.span.order) if found else []

    def applies(self, reading: Training) -> bool:
        """Whether it is for this kind of file, and for what the file does."""
        kind = reading.script.kind
        if self.needs and reading.script.identifiers.isdisjoint(self.needs):
            return False
        if kind not in self.kinds:
            return False
        if kind not in CODE or reading.trains:
            return True
        return not self.training and (bool(self.words) or reading.is_part)


def check_of(rule: Rule) -> Check:
    """The check that stands for a rule in the catalogue."""

    def judge(scripts: tuple[Script, ...], script_machine: ScriptMachine) -> Verdict:
        results = [
            (match, script.path)
            for script in scripts
            for reading in [Training(script, script_machine)]
            if rule.applies(reading)
            for match in rule.matches(reading)
        ]
        return verdict(rule, results)

    fails = rule.fires if rule.severity == "fail" else rule.errors
    return Check(
        code=rule.code,
        slug=rule.slug,
        title=rule.title,
        why=rule.why,
        passes=("no script does it",),
        warns=rule.fires if rule.severity == "warn" else (),
        fails=fails,
        notes=rule.fires if rule.severity == "note" else (),
        fix=rule.fix,
        owner=Owner.JOB,
        sources=rule.sources,
        limits=rule.limits,
        judge=judge,
    )


def severity_of(rule: Rule, match: Match) -> Severity:
    return match.severity or rule.severity


def place(match: Match, path: str, text: str = "") -> Place:
    """Where a match is."""
    span = match.span
    return Place(
        path=path,
        line=span.line,
        column=span.column,
        end_line=span.end_line,
        end_column=span.end_column,
        cell=span.cell,
        text=text,
        message=match.message + (f" (undecided: {match.undecided})" if match.undecided else ""),
    )


def verdict(rule: Rule, results: list[tuple[Match, str]]) -> Verdict:
    """One verdict for all places of a rule; undecided ones only where nothing is decided."""
    decided = [(match, path) for match, path in results if not match.undecided]
    if not results:
        return Verdict(Status.PASS, "no script does it")
    if not decided:
        match = results[0][0]
        places = tuple(place(match, path) for match, path in results)
        return unknown(f"{match.message}: {match.undecided}", places=places)
    worst = max((severity_of(rule, match) for match, _ in decided), key=RANK.index)
    places = tuple(place(match, path) for match, path in decided)
    fix = remedies((match.fix for match, _ in decided), rule.fix)
    return Verdict(STATUSES[worst], summary(decided), fix=fix, places=places)


def remedies(fixes: Iterable[str], general: str) -> str:
    """What the cases that were found need, each once; the rule's own where one has none."""
    return " ".join(dict.fromkeys(fix or general for fix in fixes))


def summary(decided: list[tuple[Match, str]]) -> str:
    """The first message, and how many more there are."""
    more = len(decided) - 1
    return decided[0][0].message + (f" (and {more} more)" if more else "")
