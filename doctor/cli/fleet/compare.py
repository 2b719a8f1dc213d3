"""Facts files of several nodes to a report: each is judged, and all are compared."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from doctor import catalog
from doctor._util.errors import UserError, reason_of
from doctor.cli.examination import Record
from doctor.cli.fleet.node_files import NodeFile, read_bytes, read_nodes
from doctor.cli.judging import judged
from doctor.cli.ledger import with_ledger
from doctor.cli.options import ConfigFlags
from doctor.facts.facts import Facts, decode_unchecked
from doctor.facts.fleet import Fleet, NodeSummary, Unread
from doctor.fleet.compare import compare, fleet_facts
from doctor.fleet.details import Key, texts_of, wanted, with_details
from doctor.fleet.expected import Expected, parse_names
from doctor.fleet.groups import parse_groups
from doctor.fleet.repeats import changes, merged, named_by_time, two_times
from doctor.judge.check import Status
from doctor.judge.engine import examine
from doctor.report.report import FailOn, Report

CHECKS = catalog.of_families("FLT")
MOST_LIST = 4 * 2**20
"""Bytes of a file with names of nodes."""
WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.NOTE, Status.PASS, Status.SKIP)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What there must be, and how nodes are grouped."""

    expect_nodes: int | None = None
    nodes_from: str = ""
    """A file with names, or a list of them."""
    topology: Path | None = None
    """Slurm's topology.conf, or a file with a switch or rack and its nodes in each line."""
    ledger: Path | None = None
    keep_names: bool = False
    """Names in the ledger instead of pseudonyms."""


def compare_files(
    paths: Sequence[Path],
    flags: Mapping[str, object],
    config: ConfigFlags,
    options: CompareOptions,
    *,
    fail_on: FailOn = "fail",
) -> Report:
    """The report on facts files, or on those in directories. Raises UserError."""
    record = Record()
    began = time.monotonic()
    expected = expected_nodes(options)
    groups = groups_of(options.topology)
    files = files_of(paths)
    read = read_nodes(files)
    nodes = [each for each in read if isinstance(each, NodeSummary)]
    unread = [each for each in read if isinstance(each, Unread)]
    fleet = _compared(nodes, unread, expected, groups)
    notes: tuple[str, ...] = ()
    if options.ledger is not None:
        fleet, notes = with_ledger(fleet, nodes, options.ledger, keep_names=options.keep_names)
    fleet = _detailed(fleet, read, files)
    facts = fleet_facts(fleet, time.monotonic() - began, record.close())
    report = judge(facts, flags, config, fail_on)
    return replace(report, notes=report.notes + notes)


def _compared(
    nodes: list[NodeSummary],
    unread: list[Unread],
    expected: Expected | None,
    groups: Mapping[str, str],
) -> Fleet:
    """Of two files of one machine what changed, else the comparison of the nodes."""
    if expected is None and not unread and (times := two_times(nodes)):
        earlier, later = times
        since = earlier.started.replace("T", " ").removesuffix("Z")
        changed = changes(earlier, named_by_time(later), since)
        both = [named_by_time(node) for node in times]
        return compare(both, unread=unread, changed=changed, since=since)
    nodes = merged(nodes)
    return compare(nodes, expected or _of_launcher(nodes), unread=unread, groups=groups)


def _detailed(
    fleet: Fleet, read: Sequence[NodeSummary | Unread], files: Sequence[NodeFile]
) -> Fleet:
    """The comparison, with what differs in long values: read again from a file of each group."""
    named = named_by_time if fleet.since else _unchanged
    paths = {
        named(each).node: (named(each), file.path)
        for each, file in zip(read, files, strict=True)
        if isinstance(each, NodeSummary)
    }
    nodes = [node for node, _ in paths.values()]
    texts: dict[str, dict[Key, str]] = {}
    for node, keys in wanted(fleet, nodes).items():
        with contextlib.suppress(OSError, ValueError):  # the file changed since it was read first
            texts[node] = texts_of(decode_unchecked(read_bytes(paths[node][1])), keys)
    return with_details(fleet, nodes, texts)


def _unchanged(node: NodeSummary) -> NodeSummary:
    return node


def groups_of(path: Path | None) -> dict[str, str]:
    """Node -> switch or rack. Raises UserError."""
    if path is None:
        return {}
    try:
        return parse_groups(path.read_bytes()[:MOST_LIST].decode())
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        raise UserError(f"--topology {path}: {reason}") from None


def judge(
    facts: Facts,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
    *,
    search: bool = True,
) -> Report:
    """The report on facts that hold a comparison, the worst findings first. Raises UserError."""
    report = judged(facts, examine(CHECKS, facts), CHECKS, flags, config, fail_on, search=search)
    ordered = sorted(report.findings, key=lambda each: WORST_FIRST.index(each.status))
    return replace(report, findings=tuple(ordered))


def expected_nodes(options: CompareOptions) -> Expected | None:
    """What the flags state, None if nothing. Raises UserError."""
    names: tuple[str, ...] = ()
    if options.nodes_from:
        try:
            names = parse_names(_list_of(options.nodes_from))
        except ValueError as error:
            raise UserError(f"--nodes-from {options.nodes_from}: {error}") from None
    if options.expect_nodes is None and not names:
        return None
    if options.expect_nodes is not None and names and options.expect_nodes != len(names):
        raise UserError(
            f"--expect-nodes {options.expect_nodes}, but --nodes-from has {len(names):,} names; "
            "omit one of them"
        )
    return Expected(count=options.expect_nodes, names=names)


def _list_of(text: str) -> str:
    """The content of a file of this name, else the text itself."""
    path = Path(text)
    try:
        if not path.is_file():
            return text
        data = path.read_bytes()[: MOST_LIST + 1]
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("not a text file") from None
    except OSError as error:
        if error.errno is not None and not path.name == text:
            raise ValueError(error.strerror or "cannot be read") from None
        return text


def _of_launcher(nodes: Sequence[NodeSummary]) -> Expected:
    """What the launcher of most nodes said, where at least two of one job are there."""
    jobs = Counter((node.job, node.nodes) for node in nodes if node.job and node.nodes)
    if not jobs:
        return Expected()
    (_, count), there = jobs.most_common(1)[0]
    return Expected(count=count) if there > 1 and there == len(nodes) else Expected()


def files_of(paths: Sequence[Path]) -> list[NodeFile]:
    """The files, and the `.json` files of each directory by name. Raises UserError."""
    files = [file for path in paths for file in _files(path)]
    if not files:
        named = ", ".join(map(str, paths))
        raise UserError(f"{named}: no facts file in it; doctor run --save-facts writes them")
    return files


def _files(path: Path) -> Iterator[NodeFile]:
    try:
        is_directory = path.is_dir()
        entries = sorted(path.glob("*.json")) if is_directory else [path]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if not is_directory and not path.exists():
        raise UserError(f"{path}: No such file or directory")
    for entry in entries:
        yield NodeFile(str(entry), entry.name)
