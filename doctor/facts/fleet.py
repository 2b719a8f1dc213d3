"""Records of several nodes: one node in a few kilobytes, and what a comparison of them observed.

`NodeSummary` is what nodes exchange; `doctor.fleet.summary.summarize` makes one from facts, and
`doctor.fleet.compare.compare` makes a `Fleet` of many, the section of the facts that the checks
FLT judge. A fleet of 10,000 nodes is a few megabytes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from doctor._util.records import Section
from doctor._util.text_fields import Identifier, Node, Product
from doctor.facts.launched import Launcher
from doctor.facts.meeting import Meeting

SUMMARY_BYTES = 8192
"""A summary as JSON is never longer; `doctor.fleet.summary.encode` sees to it."""

Outcome = Literal["ready", "fix", "return", "unknown"]
"""The verdict of a node's own checks, as `doctor.report.report.Outcome`."""
Topic = Literal["hardware", "software", "variables", "network", "limits", "files"]
"""What is compared, a check each."""


class NodeProblem(Section, frozen=True, kw_only=True):
    """A failure or a warning of a node's own checks, or an unknown that leaves no verdict."""

    code: Product
    status: Literal["fail", "warn", "unknown"]
    summary: str = ""
    """What was observed, shortened."""


class Clock(Section, frozen=True, kw_only=True):
    """A node's clock against that of rank 0."""

    offset: float
    """Seconds that it is ahead."""
    error: float = 0.0
    """Half of the round trip in which it was measured."""


class NodeSummary(Section, frozen=True, kw_only=True):
    """One node, as it travels: at most `SUMMARY_BYTES` as JSON."""

    node: Node
    """The launcher's name, else the host's."""
    host: Identifier = ""
    rank: int | None = None
    job: Identifier = ""
    launcher: Launcher | Literal[""] = ""
    nodes: int | None = None
    """Of the job, as the launcher has it."""
    file: str = ""
    """The facts file that it was made from, "" for a live node."""
    started: str = ""
    """UTC, 2026-01-31T09:05:00Z; "" where that was not recorded."""
    outcome: Outcome = "unknown"
    problems: tuple[NodeProblem, ...] = ()
    """Failures first."""
    classed: Product = ""
    """The node's hardware in one line: nodes with equal lines are of one class, whose rates are
    compared. "" where no GPU could be read."""
    compared: dict[Topic, dict[str, str]] = {}
    """Topic -> what it is -> its value, or "sha256:..." of a long one. What was not read is
    missing; a variable that is not set, too."""
    uuids: tuple[Identifier, ...] = ()
    """Of the GPUs."""
    addresses: tuple[Identifier, ...] = ()
    """MAC addresses of network devices that are no virtual ones."""
    rates: dict[str, tuple[float, ...]] = {}
    """Metric -> what was measured, higher is better: one value for each time that the node was
    measured, the oldest first. Of several GPUs the slowest one's."""
    slowest: dict[str, Product] = {}
    """Metric -> the GPU that the last value is of, "GPU 3"."""
    clock: Clock | None = None
    shortened: bool = False
    """Texts were shortened or left out to keep the limit."""


class Problems(Section, frozen=True, kw_only=True):
    """Nodes by a finding of their own checks."""

    code: Product
    status: Literal["fail", "warn", "unknown"]
    summary: str
    """Of the first node."""
    nodes: tuple[Node, ...]


class NodeLine(Section, frozen=True, kw_only=True):
    """One node in the fleet."""

    node: Node
    rank: int | None = None
    outcome: Outcome = "unknown"
    codes: tuple[Product, ...] = ()
    """Of its failures, or where it has none of what left it without a verdict."""
    kind: int | None = None
    """Index of its class; None: its hardware could not be read."""
    group: Product = ""
    """Its switch or rack, "" where that is not known."""
    differs: int = 0
    """How many compared values it has with a minority of the nodes."""
    clock: Clock | None = None


class Unread(Section, frozen=True, kw_only=True):
    """A file that holds no facts of a node."""

    file: str
    reason: str


class Doubled(Section, frozen=True, kw_only=True):
    """The same name or device more than once."""

    what: Literal["node", "GPU", "network address"]
    value: str
    nodes: tuple[Node, ...]
    """Who has it; for a node their ranks, jobs or files."""


class Group(Section, frozen=True, kw_only=True):
    """Nodes with one value."""

    value: str
    """"" where a variable is not set."""
    count: int
    nodes: tuple[Node, ...] = ()
    """All, of the largest group none."""


class Difference(Section, frozen=True, kw_only=True):
    """One thing that is not the same on all nodes that have it."""

    topic: Topic
    name: str
    groups: tuple[Group, ...]
    """The largest first."""
    unread: int = 0
    """Nodes on which it was not read."""
    detail: str = ""
    """Where values are hashes: what differs between the largest group and the next one."""


class Slow(Section, frozen=True, kw_only=True):
    """A node whose rate is below its class in every measurement that was taken."""

    node: Node
    metric: str
    factor: float
    """How many times slower than the class's median, in the best of its measurements."""
    part: Product = ""
    """Which GPU."""
    measured: int = 1
    required: int = 2
    """Measurements that must agree before the node is called slow."""
    certain: bool = False
    """A single measurement lies so far off that chance explains it in less than one of a hundred
    fleets like this one."""

    @property
    def confirmed(self) -> bool:
        """Enough measurements agree."""
        return self.measured >= self.required


class Spread(Section, frozen=True, kw_only=True):
    """One metric within one class."""

    metric: str
    nodes: int
    median: float
    scatter: float = 0.0
    """Median absolute deviation of the logarithms times 1.4826: 0.01 is one per cent."""
    bound: float | None = None
    """How many times slower than the median a node must be in every measurement; None: too few
    nodes to compare."""
    single: float | None = None
    """The same for one measurement alone."""
    found: float | None = None
    """The slowdown that would be found with 95 % probability."""
    found_high: float | None = None
    """Below 16 nodes: the upper end of the interval that `found` is in."""
    groups: tuple[Group, ...] = ()
    """Two groups where the nodes are of two speeds, the larger first; the value is the median."""
    factor: float = 1.0
    """Of the two groups: how many times slower the slower one is."""
    explained: str = ""
    """What else divides the nodes in the same way: "driver 570.86.10 / 580.95.05"."""


class NodeClass(Section, frozen=True, kw_only=True):
    """Nodes with equal hardware."""

    classed: Product
    count: int
    spreads: tuple[Spread, ...] = ()


class Metric(Section, frozen=True, kw_only=True):
    """One metric of all nodes, for the heat map."""

    name: str
    relative: tuple[float | None, ...]
    """Of each node in the order of the fleet: its rate by the median of its class."""


class Changed(Section, frozen=True, kw_only=True):
    """A rate of a node that is known from before."""

    node: Node
    metric: str
    before: float
    now: float
    since: Annotated[str, msgspec.Meta(max_length=40)] = ""


class Known(Section, frozen=True, kw_only=True):
    """What a ledger has on a GPU or a host that is in the fleet."""

    node: Node
    device: Identifier
    """The GPU's UUID, "" for the host."""
    codes: tuple[Product, ...]
    """Failures of then."""
    day: Product
    """2026-10-02."""
    earlier_node: Node = ""
    """The name of the node then, "" if it is the same."""
    returned: bool = False
    """The verdict then was RETURN."""


class Fleet(Section, frozen=True, kw_only=True):
    """What a comparison of nodes observed. Nodes are in the order of ranks, then names."""

    nodes: tuple[NodeLine, ...]
    expected: int | None = None
    """How many nodes there must be; None: not stated."""
    missing: tuple[Node, ...] = ()
    """Expected by name and not there."""
    missing_ranks: tuple[int, ...] = ()
    """Of the job's nodes, where names are not known."""
    unexpected: tuple[Node, ...] = ()
    """There and not among the expected names."""
    unread: tuple[Unread, ...] = ()
    doubled: tuple[Doubled, ...] = ()
    problems: tuple[Problems, ...] = ()
    """Of the nodes' own checks: failures first, those of most nodes first."""
    differences: tuple[Difference, ...] = ()
    compared: dict[Topic, int] = {}
    """Topic -> things that at least two nodes have."""
    classes: tuple[NodeClass, ...] = ()
    """The largest first."""
    slow: tuple[Slow, ...] = ()
    """The slowest first."""
    again: tuple[Node, ...] = ()
    """To be measured again: nodes in `slow` that are not confirmed, and controls of their class."""
    metrics: tuple[Metric, ...] = ()
    changed: tuple[Changed, ...] = ()
    known: tuple[Known, ...] | None = None
    """None: no ledger was named, or it could not be asked."""
    ledger_problem: str = ""
    """Why the ledger could not be asked, "" if it was or none was named."""
    since: str = ""
    """Two files of one machine: when the first was recorded. The nodes are then two times."""
    drain: Literal["slurm", "kubernetes", ""] = ""
    """Which of the launchers takes a node out of use."""
    origin: Literal["files", "live"] = "files"
    meeting: Meeting | None = None
    """How the nodes met; None: their files were compared."""
