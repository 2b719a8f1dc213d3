"""What several formats say of a finding in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.judge.check import MENDED_BY, Finding, Status
from doctor.judge.sources import SOURCES, cite


def said(finding: Finding) -> str:
    """The summary, and why the finding does not count where the user accepts it."""
    accepted = f"; ignored: {finding.ignored}" if finding.ignored else ""
    return finding.verdict.summary + accepted


def loud(finding: Finding) -> bool:
    """Whether it wants to be read: something to mend, or nobody knows."""
    return not finding.ignored and (finding.complains or finding.status is Status.UNKNOWN)


def remedy(finding: Finding) -> Iterator[str]:
    """Lines: the fix, the commands and the sources; none where nothing is to be mended."""
    if not finding.complains:
        return
    yield f"Fix: {finding.fix}"
    yield from (f"  $ {command}" for command in finding.commands)
    yield f"Mended by: {MENDED_BY[finding.owner]}"
    yield from (f"See: {cite(SOURCES[id])}" for id in finding.sources)


def one_line(text: str, limit: int = 0) -> str:
    """White space of any kind as one blank; cut at `limit` characters, 0 being no limit."""
    line = " ".join(text.split())
    return line if not limit or len(line) <= limit else line[: limit - 4] + " ..."
