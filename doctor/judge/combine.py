"""Combine several verdicts of one check into one."""

from __future__ import annotations

from dataclasses import replace

from doctor.judge.check import Owner, Status, Verdict

SEVERITY = (Status.SKIP, Status.PASS, Status.NOTE, Status.WARN, Status.UNKNOWN, Status.FAIL)
"""In ascending order. An unknown outweighs a warning: it may hide a failure."""


PROBLEMS = (Status.WARN, Status.FAIL)


def worst(*verdicts: Verdict, partly_shown: bool = False, numbered: bool = False) -> Verdict:
    """The worst status, with the summaries of every verdict that is not fine, worst first.

    Among verdicts of one status, those that the machine's owner must fix come first.
    `partly_shown`: of what a pasted report shows, a problem outweighs what it does not show.
    `numbered`: several fixes have the numbers of what they are for.
    """
    if partly_shown:
        verdicts = tuple(v for v in verdicts if v.status in PROBLEMS) or verdicts
    ordered = sorted(
        verdicts, key=lambda each: (-SEVERITY.index(each.status), each.owner is not Owner.MACHINE)
    )
    status = ordered[0].status
    fine = (Status.SKIP, Status.PASS)
    reported = [verdict for verdict in ordered if verdict.status not in fine] or ordered
    fixes = dict.fromkeys(verdict.fix for verdict in reported if verdict.fix)
    if numbered and len(fixes) > 1:
        reported = [
            replace(v, summary=f"({n}) {v.summary}", fix=v.fix and f"({n}) {v.fix}")
            for n, v in enumerate(reported, 1)
        ]
        fixes = dict.fromkeys(verdict.fix for verdict in reported if verdict.fix)
    return Verdict(
        status,
        "; ".join(verdict.summary for verdict in reported),
        commands=tuple(dict.fromkeys(line for verdict in reported for line in verdict.commands)),
        fix="\n".join(fixes) or None,
        owner=ordered[0].owner,
        sources=tuple(dict.fromkeys(id for verdict in reported for id in verdict.sources)),
        seconds=max(verdict.seconds for verdict in verdicts),
        switches_off=tuple(
            dict.fromkeys(each for verdict in reported for each in verdict.switches_off)
        ),
    )
