"""What a comparison of nodes adds to a report: its header and its tables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from doctor._util.units import gb, shown
from doctor.facts.fleet import Fleet, NodeLine, Outcome, Spread
from doctor.fleet.differences import is_serious
from doctor.report.table import Table

CLASSES = 4
"""Classes of hardware that the header names."""
ROWS = 200
"""Nodes that the table lists: a report of more is read by its HTML page or by a program."""
PARTS = 3
"""Things of a node that its row names."""
RANKS: dict[Outcome, int] = {"return": 0, "fix": 1, "unknown": 2, "ready": 3}
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,254}", re.ASCII)
"""What a launcher takes for the name of a node: nothing that a shell or a list would divide."""


def fleet_parts(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """How many nodes of which hardware."""
    if fleet.since:
        yield "machine", f"two files, the first of {shown(fleet.since)}"
        return
    count = len(fleet.nodes)
    expected = f" of {fleet.expected:,}" if fleet.expected is not None else ""
    outcomes = Counter(line.outcome for line in fleet.nodes)
    verdicts = ", ".join(f"{outcomes[name]:,} {name.upper()}" for name in RANKS if outcomes[name])
    yield "nodes", f"{count:,}{expected}: {verdicts}" if verdicts else f"{count:,}{expected}"
    for each in fleet.classes[:CLASSES]:
        yield "class", f"{each.count:,} × ({shown(each.classed, 200)})"
    if len(fleet.classes) > CLASSES:
        yield "class", f"{len(fleet.classes) - CLASSES:,} more classes of hardware"


def fleet_tables(fleet: Fleet) -> Iterator[Table]:
    """Nodes that differ, groups of nodes, and the rates of each class."""
    if rows := list(_nodes(fleet)):
        heads: tuple[str, ...] = ("node", "rank", "verdict", "what")
        yield Table("Nodes that differ", heads, tuple(rows))
    if any(line.group for line in fleet.nodes):
        heads = ("switch or rack", "nodes", "not ready", "differ", "slow")
        yield Table("Switches and racks", heads, tuple(_groups(fleet)), right=(1, 2, 3, 4))
    rates = [
        _rates(number, spread)
        for number, each in enumerate(fleet.classes)
        for spread in each.spreads
    ]
    if rates:
        heads = ("class", "rate of the slowest GPU", "nodes", "median", "scatter", "found from")
        yield Table("Rates by class", heads, tuple(rates), right=(2, 3, 4, 5))


def _nodes(fleet: Fleet) -> Iterator[tuple[str, str, str, str]]:
    """A row for each node that is not like the others, the worst first."""
    unlike = observations(fleet)
    for name in fleet.missing[:ROWS]:
        yield shown(name), "", "missing", "did not report"
    lines = [line for line in fleet.nodes if line.outcome != "ready" or unlike[line.node]]
    lines.sort(key=lambda line: (RANKS[line.outcome], -len(unlike[line.node])))
    for line in lines[:ROWS]:
        parts = [*map(str, line.codes), *unlike[line.node]]
        more = f" and {len(parts) - PARTS} more" if len(parts) > PARTS else ""
        what = "; ".join(shown(part, 90) for part in parts[:PARTS]) + more
        yield shown(line.node), rank(line), line.outcome.upper(), what
    if len(lines) > ROWS:
        yield "...", "", "", f"{len(lines) - ROWS:,} more nodes: --format html or json has them"


def rank(line: NodeLine) -> str:
    return "" if line.rank is None else str(line.rank)


def observations(fleet: Fleet) -> defaultdict[str, list[str]]:
    """Node -> what it has with a minority of the nodes, and where it is slow."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for slow in fleet.slow:
        times = "" if slow.confirmed else f", measured {_times(slow.measured)}"
        found[slow.node].append(f"{slow.metric} {slow.factor:.2f}x slower{times}")
    for each in fleet.differences:
        for group in each.groups[1:]:
            for node in group.nodes:
                found[node].append(f"{each.name}: {group.value or 'not set'}")
    for double in fleet.doubled:
        for node in (double.value,) if double.what == "node" else double.nodes:
            found[node].append(f"{double.what} twice")
    return found


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _groups(fleet: Fleet) -> Iterator[tuple[str, ...]]:
    """Counts of each switch or rack, the one with most bad nodes first."""
    slow = {each.node for each in fleet.slow}
    by_group: dict[str, list[NodeLine]] = defaultdict(list)
    for line in fleet.nodes:
        by_group[line.group].append(line)
    rows = []
    for name, lines in by_group.items():
        bad = sum(line.outcome != "ready" for line in lines)
        counts = (bad, sum(bool(line.differs) for line in lines))
        slower = sum(line.node in slow for line in lines)
        rows.append(((*counts, slower), name, len(lines)))
    for counted, name, size in sorted(rows, key=lambda row: (-sum(row[0]), row[1])):
        yield shown(name) or "(not stated)", f"{size:,}", *(f"{count:,}" for count in counted)


def _rates(number: int, spread: Spread) -> tuple[str, ...]:
    compared = spread.bound is not None
    found = f"{spread.found:.2f}x" if compared else "only floors"
    if spread.found_high is not None:
        found += f" to {spread.found_high:.2f}x"
    return (
        str(number + 1),
        shown(spread.metric),
        f"{spread.nodes:,}",
        rate(spread.metric, spread.median),
        f"{spread.scatter:.1%}" if compared else "",
        found,
    )


def rate(metric: str, value: float) -> str:
    """ "790 TFLOP/s", "54.4 GB/s"."""
    return f"{value / 1e12:.0f} TFLOP/s" if metric.startswith("matmul") else f"{gb(value)}/s"


def bad_nodes(fleet: Fleet) -> list[str]:
    """Names of nodes that a job should not get: missing ones, those whose verdict is FIX or RETURN,
    slow in every measurement, there twice, or with a minority in what stops a job.
    """
    bad = dict.fromkeys([*fleet.missing])
    bad |= dict.fromkeys(line.node for line in fleet.nodes if line.outcome in ("fix", "return"))
    bad |= dict.fromkeys(each.node for each in fleet.slow if each.confirmed)
    for double in fleet.doubled:
        bad |= dict.fromkeys([double.value] if double.what == "node" else double.nodes)
    for each in fleet.differences:
        if is_serious(each) and each.groups[0].count * 2 > len(fleet.nodes):
            bad |= dict.fromkeys(node for group in each.groups[1:] for node in group.nodes)
    return [name for name in bad if NAME.fullmatch(name)]


def good_nodes(fleet: Fleet) -> list[str]:
    """Names of nodes that are READY and not among the bad ones."""
    bad = set(bad_nodes(fleet))
    ready = [line.node for line in fleet.nodes if line.outcome == "ready"]
    return [name for name in dict.fromkeys(ready) if name not in bad and NAME.fullmatch(name)]
