"""Several verdicts of one check, combined."""

from __future__ import annotations

from doctor.judge.check import Status, Verdict

SEVERITY_ORDER = (Status.SKIP, Status.PASS, Status.WARN, Status.UNKNOWN, Status.FAIL)
"""Unknown outranks a warning: it may hide a failure."""


def worst(*verdicts: Verdict) -> Verdict:
    """The worst status, with the summaries of all that did not pass, worst first."""
    ordered = sorted(verdicts, key=lambda verdict: -SEVERITY_ORDER.index(verdict.status))
    status = ordered[0].status
    fine = (Status.SKIP, Status.PASS)
    relevant = [verdict for verdict in ordered if verdict.status not in fine] or ordered
    fixes = dict.fromkeys(verdict.fix for verdict in relevant if verdict.fix)
    return Verdict(
        status,
        "; ".join(verdict.summary for verdict in relevant),
        commands=tuple(dict.fromkeys(line for verdict in relevant for line in verdict.commands)),
        fix="\n".join(fixes) or None,
        owner=next((verdict.owner for verdict in relevant if verdict.owner), None),
        sources=tuple(dict.fromkeys(id for verdict in relevant for id in verdict.sources)),
        seconds=max(verdict.seconds for verdict in verdicts),
        switches_off=tuple(
            dict.fromkeys(each for verdict in relevant for each in verdict.switches_off)
        ),
    )
