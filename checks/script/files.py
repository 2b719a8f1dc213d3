"""Checks of the files themselves: that they can be read, and that suppressions are used."""

from __future__ import annotations

from doctor.facts.script import Script
from doctor.judge.check import Check, Owner, Verdict, ok, unknown, warn
from doctor.judge.place import Place


def readable(scripts: tuple[Script, ...]) -> Verdict:
    places = tuple(
        Place(
            path=script.path,
            line=each.span.line,
            column=each.span.column,
            cell=each.span.cell,
            message=each.reason,
        )
        for script in scripts
        for each in script.unreadable
    )
    if not scripts:
        return unknown("no script was read")
    if not places:
        return ok(f"{len(scripts)} files were read")
    return warn(f"{places[0]}: {places[0].message}", places=places)


READABLE = Check(
    code="SCR001",
    slug="script-readable",
    title="Scripts can be parsed",
    why="A file with a syntax error does not start, and no rule can read it.",
    passes=("every file parses",),
    warns=("a file, or a cell of a notebook, cannot be decoded or parsed",),
    fix="Correct the place, or exclude the file from the lint.",
    owner=Owner.JOB,
    judge=readable,
    sources=("python-grammar",),
    limits="that the file runs.",
)


def suppressions_used(scripts: tuple[Script, ...]) -> Verdict:
    """Judged without the findings: a reason must be there. `doctor lint` reports unused ones."""
    places = tuple(
        Place(
            path=script.path,
            line=each.span.line,
            column=each.span.column,
            cell=each.span.cell,
            message="a suppression needs a reason after the bracket",
        )
        for script in scripts
        for each in script.suppressions
        if not each.reason
    )
    if not places:
        return ok("every suppression has a reason")
    return warn(f"{places[0]}: {places[0].message}", places=places)


SUPPRESSIONS = Check(
    code="SCR002",
    slug="suppression-used",
    title="Suppressions have a reason and are used",
    why="A suppression without a reason cannot be reviewed, and an unused one hides the next "
    "finding of its line.",
    passes=("every `# doctor: ignore[CODE] reason` has a reason and suppresses a finding",),
    warns=("the reason is missing, and the finding stays", "nothing is suppressed by it"),
    fix="Write the reason after the bracket, or remove the comment.",
    owner=Owner.JOB,
    judge=suppressions_used,
    sources=("ruff-suppression",),
    limits="that a noqa comment is used: other tools read these, too.",
)

CHECKS = (READABLE, SUPPRESSIONS)
