"""The logs of several nodes as one: each file is read once, by a node that sees it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from doctor._util.errors import UserError
from doctor._util.units import shown
from doctor.checks.log.patterns import line_patterns
from doctor.cli import triage
from doctor.cli.examination import Record
from doctor.cli.fleet.node import Node, label_of, result_deadline, stay
from doctor.cli.options import ConfigFlags
from doctor.cli.second_look import MOST_AGAIN, look_again
from doctor.facts.fleet import Clock
from doctor.fleet.logs import Listed, corrections, listed, local, read_all, read_part
from doctor.fleet.meeting import Gathered, RankZero
from doctor.fleet.messages import Result
from doctor.fleet.orders import Orders
from doctor.log.flight_recorder import split_dumps
from doctor.log.opening import files_of
from doctor.log.read import FileResult, read_files, unchanged
from doctor.report.delivery import OutputOptions, deliver
from doctor.report.report import FailOn, Report

REPORT_SECONDS = 3.0
MOST_LISTED = 20_000


def meet(
    node: Node,
    paths: Sequence[str],
    output: OutputOptions,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
) -> int:
    """List this node's logs, read a share of all, and print the report on node 0."""
    try:
        own = _listing(paths)
    except UserError as error:
        own = str(error)
    if node.member.rank:
        return _as_other(node, own)
    return _as_rank_zero(node, own, output, flags, config, fail_on)


def _listing(paths: Sequence[str]) -> list[Listed] | str:
    """The log files of these paths. Raises UserError."""
    _, files = split_dumps(file for path in paths for file in files_of(path))
    return [listed(path) for path in dict.fromkeys(files)][:MOST_LISTED]


def _as_other(node: Node, own: list[Listed] | str) -> int:
    if isinstance(own, str):
        return stay(node, Result(failed=own), {}, own)
    duties = {"share": lambda content: read_part(content, own, _read)}
    result = Result(content=msgspec.Raw(msgspec.json.encode(own)))
    return stay(node, result, duties, f"{len(own)} log file{'s' * (len(own) != 1)}")


def _read(paths: Sequence[str], among: Sequence[str]) -> list[FileResult]:
    """What files contribute, with the second look that a triage of so many takes."""
    again = look_again if len(among) <= MOST_AGAIN else unchanged
    return [again(each) for each in read_files(paths, line_patterns(), among)]


def _as_rank_zero(
    node: Node,
    own: list[Listed] | str,
    output: OutputOptions,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
) -> int:
    record = Record()
    gathered_by = result_deadline(node)
    with RankZero(node.member, node.key, node.python, gathered_by) as rank_zero:
        gathered = rank_zero.gather()
        orders = Orders(rank_zero, node.deadline - REPORT_SECONDS)
        report = _report(node, own, gathered, orders, record, (flags, config, fail_on))
        code = deliver(report, output)
        rank_zero.finish(report.headline, node.deadline)
        return code


def _report(
    node: Node,
    own: list[Listed] | str,
    gathered: Gathered,
    orders: Orders,
    record: Record,
    how: tuple[Mapping[str, object], ConfigFlags, FailOn],
) -> Report:
    flags, config, fail_on = how
    labels = {rank: label_of(node, gathered, rank) for rank in range(node.member.nodes)}
    lists = {0: own, **{rank: _opened(each) for rank, each in gathered.results.items()}}
    listings = {rank: each for rank, each in lists.items() if not isinstance(each, str)}
    reasons = {rank: each for rank, each in lists.items() if isinstance(each, str)}
    absent = {
        labels[rank]: reasons.get(rank) or gathered.refused.get(rank) or "the node did not report"
        for rank in range(node.member.nodes)
        if rank not in listings
    }
    clocks = corrections(orders.clocks(local(listings)))
    log = read_all(orders, labels, listings, _read, absent, clocks)
    facts = triage.facts_of(None, log, time.monotonic() - node.started)
    facts = facts.with_(examination=record.close())
    report = triage.judge(facts, flags, config, fail_on)
    return replace(report, notes=(*report.notes, *_corrected(clocks, labels)))


def _corrected(clocks: Mapping[int, Clock], labels: Mapping[int, str]) -> Iterator[str]:
    for rank, clock in clocks.items():
        off, way = abs(clock.offset), "ahead of" if clock.offset > 0 else "behind"
        yield (
            f"times in the logs of {labels[rank]} alone are those of node 0: its clock is "
            f"{off:.3f} s (± {clock.error:.3f} s) {way} that of node 0"
        )


def _opened(result: Result) -> list[Listed] | str:
    """A node's listing, or why there is none."""
    if result.failed:
        return shown(result.failed, 500)
    try:
        return msgspec.json.decode(result.content, type=list[Listed])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "its listing is malformed"
