"""Facts files of nodes to summaries: decoded and judged, on all processors."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import chain
from multiprocessing import get_context
from typing import Literal, NamedTuple

import msgspec

from doctor._util.errors import reason_of
from doctor._util.streams import without_waiting
from doctor.cli.facts_file import MAX_BYTES
from doctor.cli.findings import findings_of
from doctor.facts.facts import Facts, decode_unchecked
from doctor.facts.fleet import NodeProblem, NodeSummary, Outcome, Unread
from doctor.facts.host import Host
from doctor.fleet.summary import check, summarize, unread_reason
from doctor.judge.check import Finding, Status
from doctor.report.report import Report

FEW = 24
"""Files that are judged in this process: starting others takes longer."""
SHARE = 16
"""Files that a process is given at a time."""
STATUSES: dict[Status, Literal["fail", "warn", "unknown"]] = {
    Status.FAIL: "fail",
    Status.UNKNOWN: "unknown",
    Status.WARN: "warn",
}
"""Of what a node reports, failures first."""


class NodeFile(NamedTuple):
    """A facts file and the name that a report has for it."""

    path: str
    name: str


class Judged(NamedTuple):
    """What a node's own checks say."""

    outcome: Outcome
    problems: tuple[NodeProblem, ...]


def read_nodes(files: Sequence[NodeFile]) -> list[NodeSummary | Unread]:
    """A summary of each file, or why there is none, in the order of the files.

    Facts that differ in names and times only are judged once.
    """
    workers = min(processors(), len(files) // SHARE)
    if len(files) <= FEW or workers < 2:
        return [read_node(file) for file in files]
    shares = [files[start : start + SHARE] for start in range(0, len(files), SHARE)]
    # Started by fork: this process has no threads yet, and imports nothing again.
    with ProcessPoolExecutor(workers, get_context("fork")) as pool:
        return list(chain.from_iterable(map(_unpacked, pool.map(_read_share, shares))))


def processors() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[NodeSummary | Unread])


def _read_share(files: Iterable[NodeFile]) -> bytes:
    return _ENCODER.encode([read_node(file) for file in files])


def _unpacked(data: bytes) -> Iterator[NodeSummary | Unread]:
    yield from _DECODER.decode(data)


def read_node(file: NodeFile) -> NodeSummary | Unread:
    """The summary of a facts file, which is untrusted."""
    try:
        return node_of(decode_unchecked(read_bytes(file.path)), file.name)
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else unread_reason(error)
        return Unread(file=file.name, reason=reason)


def node_of(facts: Facts, name: str = "") -> NodeSummary:
    """The summary of facts, judged. Raises ValueError for facts that are of no machine."""
    if facts.subject != "machine":
        raise ValueError(f"facts of a {facts.subject}, not of a machine")
    judged = judge(facts)
    return check(summarize(facts, judged.outcome, judged.problems, name))


def read_bytes(path: str) -> bytes:
    """A facts file. Raises OSError or ValueError."""
    with open(path, "rb", opener=without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        if status.st_size > MAX_BYTES:
            raise ValueError(f"exceeds the {MAX_BYTES >> 20} MiB limit")
        if not status.st_size:
            raise ValueError("it is empty; the command that writes it may have failed")
        return file.read(MAX_BYTES)


def judge(facts: Facts) -> Judged:
    """The verdict of a node's own checks, judged once for facts that only names distinguish."""
    nameless = without_names(facts)
    return _judge_once(hashlib.sha256(msgspec.msgpack.encode(nameless)).digest(), Box(nameless))


class Box:
    """Facts beside the key of a cache: equal to all others, as the key decides."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box)

    def __hash__(self) -> int:
        return 0


def without_names(facts: Facts) -> Facts:
    """The facts without what identifies the node or the run: no check reads that."""
    host = facts.host
    if isinstance(host, Host):
        host = msgspec.structs.replace(host, name="", mac_addresses=None)
    return facts.with_(host=host, examination=None, launched=None, seconds=0.0)


@lru_cache(maxsize=256)
def _judge_once(key: bytes, box: Box) -> Judged:
    report = Report(box.facts, findings_of(box.facts))
    return Judged(outcome_of(report), tuple(problems_of(report)))


def outcome_of(report: Report) -> Outcome:
    """The verdict of a node's report."""
    outcome: Outcome = msgspec.convert(str(report.outcome), Outcome)
    return outcome


def problems_of(report: Report) -> Iterator[NodeProblem]:
    """Failures, then what leaves no verdict, then warnings."""
    job, options = report.facts.job, report.facts.options
    for status in STATUSES:
        for finding in report.with_status(status):
            if status is not Status.UNKNOWN or finding.check.is_required(job, options):
                yield _problem(finding)


def _problem(finding: Finding) -> NodeProblem:
    status = STATUSES[finding.status]
    return NodeProblem(code=finding.check.code, status=status, summary=finding.verdict.summary)
