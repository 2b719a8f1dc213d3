"""How the nodes of a fleet met: who came, by which way, and what went wrong on it."""

from __future__ import annotations

from doctor._util.records import Ended, Section
from doctor._util.text_fields import Identifier, Node, Product
from doctor.facts.launched import Launcher


class Arrival(Section, frozen=True, kw_only=True):
    """A node that reached rank 0."""

    node: Node
    rank: int
    source: Identifier = ""
    """The address that its messages came from, on its own interface."""
    interface: Identifier = ""
    resolving: float = 0.0
    """Seconds that the name of rank 0 took to resolve there."""
    connecting: float = 0.0


class Absence(Section, frozen=True, kw_only=True):
    """A node that did not report."""

    node: Node
    """Its name where that is known, else "node 3"."""
    rank: int
    joined: bool
    """It reached rank 0 before."""
    reason: str = ""
    """Why its last message was refused, or what it says itself; "" if nothing came."""


class Shared(Section, frozen=True, kw_only=True):
    """A directory that one node wrote a file to, and all looked for it."""

    path: str
    written: Ended
    """How writing it on the first node ended."""
    seen: tuple[Node, ...] = ()
    unseen: dict[Node, str] = {}
    """Node -> why it did not find the file, or found another."""
    silent: tuple[Node, ...] = ()
    """They did not answer in time."""


class Pair(Section, frozen=True, kw_only=True):
    """An all-reduce of two nodes."""

    first: Node
    second: Node
    attempt: int = 0
    """In which round of pairs, from 0."""
    ended: Ended
    """budget: not tried, or not finished before the deadline of the fleet."""
    wrong: int | None = None
    """Elements of the sum that are wrong."""
    rate: float | None = None
    """Bus bandwidth in bytes per second."""

    @property
    def good(self) -> bool:
        return self.ended.ok and self.wrong == 0


class Meeting(Section, frozen=True, kw_only=True):
    """The conversation of rank 0 with the others over torch's store."""

    nodes: int
    launcher: Launcher
    address: Identifier = ""
    port: int = 0
    deadline: float
    """Seconds that the nodes had to report."""
    authenticated: bool = False
    """The messages were sealed with a key that others do not know."""
    failed: str = ""
    """Why the store could not be used, "" if it could."""
    open_files: int | None = None
    """Limit of the process that serves the store; None: torchrun's agent serves it."""
    arrivals: tuple[Arrival, ...] = ()
    absences: tuple[Absence, ...] = ()
    shared: tuple[Shared, ...] | None = None
    """Directories that the user named for output; None: none was."""
    backend: Product = ""
    """Of the pairs: nccl or gloo."""
    pairs: tuple[Pair, ...] | None = None
    """None: no collectives were asked for."""
