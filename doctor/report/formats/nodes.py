"""Names of nodes, a line each: for `sbatch --exclude` and the like."""

from __future__ import annotations

from doctor._util.units import visible
from doctor.facts.fleet import Fleet
from doctor.facts.host import Host
from doctor.report.fleet import bad_nodes, good_nodes
from doctor.report.report import Outcome, Report


def render_good(report: Report) -> str:
    """Nodes that a job can take: READY, and like the others. One without a verdict is not there."""
    return _lines(report, good=True)


def render_bad(report: Report) -> str:
    """Nodes that a job should not get, missing ones among them."""
    return _lines(report, good=False)


def _lines(report: Report, *, good: bool) -> str:
    fleet = report.facts.fleet
    if isinstance(fleet, Fleet):
        return "\n".join(good_nodes(fleet) if good else bad_nodes(fleet))
    bad = report.outcome in (Outcome.FIX, Outcome.RETURN)
    wanted = report.outcome is Outcome.READY if good else bad
    return visible(_name(report)) if wanted else ""


def _name(report: Report) -> str:
    """Of the machine of an ordinary report."""
    launched, host = report.facts.launched, report.facts.host
    return (launched.node if launched else "") or (host.name if isinstance(host, Host) else "")
