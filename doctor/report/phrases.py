"""Phrases about findings that several formats share."""

from __future__ import annotations

from collections.abc import Iterator

from doctor._util.owner import OWNERS
from doctor.judge.check import Finding, Status
from doctor.judge.sources import SOURCES, cite


def summary(finding: Finding) -> str:
    """The verdict's summary, and where the user ignores the finding, the reason."""
    ignored = f"; ignored: {finding.ignored}" if finding.ignored else ""
    return finding.verdict.summary + ignored


def needs_attention(finding: Finding) -> bool:
    """A warning, failure or unknown that is not ignored."""
    return not finding.ignored and (finding.is_problem or finding.status is Status.UNKNOWN)


def fix_owner(finding: Finding) -> str:
    """ "Fix owner: host or provider"."""
    return f"Fix owner: {OWNERS[finding.owner]}"


def remedy(finding: Finding) -> Iterator[str]:
    """Lines with the fix, its owner, the commands and the sources; none without a problem."""
    if not finding.fix:
        return
    first, *more = finding.fix.split("\n")
    yield f"Fix: {first}"
    yield from (f"  | {line}" for line in more)  # a line of a value must not begin one
    yield from (f"  $ {command}" for command in finding.commands)
    yield fix_owner(finding)
    yield from (f"See: {cite(SOURCES[id])}" for id in finding.sources)


def one_line(text: str, limit: int = 0) -> str:
    """Runs of white space as one space; cut to `limit` characters, 0 for no limit."""
    line = " ".join(text.split())
    return line if not limit or len(line) <= limit else line[: limit - 4] + " ..."
