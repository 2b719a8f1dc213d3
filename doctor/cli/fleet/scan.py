"""One checkpoint, read by several nodes: the report is that of `doctor scan` on one of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from doctor import catalog
from doctor._util.records import Unknown
from doctor._util.units import gb, shown
from doctor.checkpoint.records import Checkpoint, Values
from doctor.cli import scan
from doctor.cli.examination import Record
from doctor.cli.fleet.node import Node, label_of, stay
from doctor.cli.fleet.together import Together, meeting_of
from doctor.cli.judging import judged
from doctor.cli.options import ConfigFlags
from doctor.collect.background import background
from doctor.collect.children import Children, fit
from doctor.facts.facts import Facts
from doctor.facts.fleet import Fleet, NodeSummary
from doctor.fleet.checkpoint import Identity, read_all, read_part
from doctor.fleet.compare import compare
from doctor.fleet.expected import Expected
from doctor.fleet.meeting import Gathered, RankZero
from doctor.fleet.messages import Result
from doctor.fleet.orders import Orders
from doctor.judge.engine import examine
from doctor.report.delivery import OutputOptions, deliver
from doctor.report.report import FailOn, Report

LIST_SECONDS = 60.0
"""For the names, sizes and samples of the files; a dead mount does not answer."""
DEADLINE = 3600.0
"""Unless the user names another one: a checkpoint of terabytes is read for a while."""
JOIN_SHARE = 1 / 12
"""Of the deadline, 300 s of an hour: a node that has not come by then reads nothing."""
REPORT_SECONDS = 5.0
OF_FLEET = ("FLT001", "FLT009", "FLT015", "FLT016", "FLT017")
"""Who is missing, who sees other files, and how the nodes met."""
CHECKS = (*scan.CHECKS, *(check for check in catalog.of_families("FLT") if check.code in OF_FLEET))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedScan:
    """What the nodes read together."""

    path: str
    deep: bool
    readers: int | None = None
    """How many nodes read at once; None: all."""

    def read(self, share: tuple[int, int]) -> Checkpoint | Unknown:
        """The headers, and with `deep` a share of the values, in a child."""
        request = {"deep": self.deep, "share": share}
        return scan.read_in_child(self.path, request)[0]

    def values(self, share: tuple[int, int]) -> Values | Unknown:
        """A share of the values."""
        return _values(self.read(share))


def _values(found: Checkpoint | Unknown) -> Values | Unknown:
    values = found if isinstance(found, Unknown) else found.values
    return Unknown(reason="no values were read") if values is None else values


def meet(
    node: Node,
    what: SharedScan,
    output: OutputOptions,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
) -> int:
    """See which files are here, read a share of them, and print the report on node 0."""
    own = identity_of(what.path)
    if node.member.rank:
        return _as_other(node, own, what)
    record = Record()
    joined_by = node.started + JOIN_SHARE * (node.deadline - node.started)
    with RankZero(node.member, node.key, node.python, joined_by) as rank_zero:
        gathered = rank_zero.gather()
        orders = Orders(rank_zero, node.deadline - REPORT_SECONDS)
        checkpoint = _checkpoint(node, own, what, gathered, orders)
        fleet = _fleet(node, own, what, gathered)
        seconds = time.monotonic() - node.started
        facts = scan.facts_of(what.path, checkpoint, seconds).with_(
            fleet=fleet, examination=record.close()
        )
        report = _judged(facts, flags, config, fail_on)
        code = deliver(report, output)
        rank_zero.finish(report.headline, node.deadline)
        return code


def _as_other(node: Node, own: Identity | Unknown, what: SharedScan) -> int:
    if isinstance(own, Unknown):
        return stay(node, Result(failed=own.reason[:2000]), {}, own.reason)
    duties = {"share": lambda content: read_part(content, own, what.values)}
    return stay(node, Result(content=msgspec.Raw(msgspec.json.encode(own))), duties, said(own))


def said(files: Identity) -> str:
    """The files as a value that nodes are compared by."""
    return f"{files.files:,} files, {gb(files.bytes)}, samples {files.digest[:12]}"


def identity_of(path: str) -> Identity | Unknown:
    """Which files lie here, by a child."""
    children = Children()
    try:
        answer = children.run_probe("checkpoint_identity", path, seconds=LIST_SECONDS)
    finally:
        children.interrupt()
    if answer.answer is None:
        return Unknown(reason=answer.ended_with_stage.detail or answer.ended.how)
    return fit(answer.answer, Identity)


def _checkpoint(
    node: Node, own: Identity | Unknown, what: SharedScan, gathered: Gathered, orders: Orders
) -> Checkpoint | Unknown:
    """The headers by node 0, the values by all that see the same files."""
    if isinstance(own, Unknown):
        return own
    alike = [rank for rank in orders.ranks if opened(gathered.results[rank]) == own]
    readers = [0, *alike][: what.readers]
    if not what.deep or len(readers) == 1:
        try:
            alone = background(lambda: what.read((0, 1)))
            return alone.result(max(0.0, orders.deadline - time.monotonic()))
        except TimeoutError:
            return Unknown(reason="it was not read before the deadline")
    headers: list[Checkpoint | Unknown] = []

    def read(share: tuple[int, int]) -> Values | Unknown:
        headers.append(what.read(share))
        return _values(headers[-1])

    labels = {rank: label_of(node, gathered, rank) for rank in readers}
    values = read_all(orders, labels, readers, own, read)
    if not headers:
        return values if isinstance(values, Unknown) else what.read((0, 1))
    first = headers[0]
    return first if isinstance(first, Unknown) else msgspec.structs.replace(first, values=values)


def _fleet(node: Node, own: Identity | Unknown, what: SharedScan, gathered: Gathered) -> Fleet:
    seen = {0: own, **{rank: opened(each) for rank, each in gathered.results.items()}}
    nodes = [
        NodeSummary(
            node=label_of(node, gathered, rank),
            rank=rank,
            compared={"files": {what.path: _value(each)}},
        )
        for rank, each in seen.items()
    ]
    member = node.member
    fleet = compare(nodes, Expected(count=member.nodes, names=member.expected))
    meeting = meeting_of(node, gathered, Together())
    return msgspec.structs.replace(fleet, meeting=meeting, origin="live")


def _value(files: Identity | Unknown) -> str:
    return f"not read: {files.reason}"[:300] if isinstance(files, Unknown) else said(files)


def _judged(
    facts: Facts, flags: Mapping[str, object], config: ConfigFlags, fail_on: FailOn
) -> Report:
    checks = [scan.without_a_device(check) for check in CHECKS]
    return judged(facts, examine(checks, facts), CHECKS, flags, config, fail_on)


def opened(result: Result) -> Identity | Unknown:
    """Which files a node sees, or why it does not know."""
    if result.failed:
        return Unknown(reason=shown(result.failed, 300))
    try:
        return msgspec.json.decode(result.content, type=Identity)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Unknown(reason="its answer is malformed")
