"""Several verdicts of one check as one."""

from __future__ import annotations

from doctor.judge.check import Status, Verdict

GRAVITY = (Status.SKIP, Status.PASS, Status.WARN, Status.UNKNOWN, Status.FAIL)
"""What could not be read outweighs a warning: it may hide a failure."""


def worst(*verdicts: Verdict) -> Verdict:
    """The gravest status; the summaries of all that is not as it should be, gravest first."""
    ordered = sorted(verdicts, key=lambda verdict: -GRAVITY.index(verdict.status))
    status = ordered[0].status
    fine = (Status.SKIP, Status.PASS)
    told = [verdict for verdict in ordered if verdict.status not in fine] or ordered
    fixes = dict.fromkeys(verdict.fix for verdict in told if verdict.fix)
    return Verdict(
        status,
        "; ".join(verdict.summary for verdict in told),
        commands=tuple(dict.fromkeys(line for verdict in told for line in verdict.commands)),
        fix="\n".join(fixes) or None,
        owner=next((verdict.owner for verdict in told if verdict.owner), None),
        sources=tuple(dict.fromkeys(id for verdict in told for id in verdict.sources)),
        seconds=max(verdict.seconds for verdict in verdicts),
        switches_off=tuple(
            dict.fromkeys(each for verdict in told for each in verdict.switches_off)
        ),
    )
