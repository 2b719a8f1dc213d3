"""How a launcher of several nodes named this one."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section
from doctor._util.text_fields import Identifier, Node

Launcher = Literal["slurm", "torchrun", "openmpi", "skypilot", "kubernetes", "runpod", "flags"]


class Launched(Section, frozen=True, kw_only=True):
    """The node's name, number and job, by the environment of its launcher."""

    by: Launcher
    node: Node = ""
    """The launcher's name of the node, "" where it gives none; the host's own may differ."""
    rank: int | None = None
    """Of the node, from 0."""
    nodes: int | None = None
    """Of the job."""
    job: Identifier = ""
    """The launcher's name of the job."""
