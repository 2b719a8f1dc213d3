"""Flags of scan alone: what a checkpoint is compared with, and how a run goes on from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from doctor.cli import panels
from doctor.job.quantities import MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFlags:
    """--baseline, --merged-from, --adapter, --equals: what a checkpoint is compared with."""

    baseline: Annotated[
        str | None,
        panels.scope("An earlier checkpoint, to compare parameters with.", metavar="PATH"),
    ] = None
    merged_from: Annotated[
        str | None,
        panels.scope("PATH is a merge: the base that --adapter was merged into.", metavar="PATH"),
    ] = None
    adapter: Annotated[
        list[str] | None,
        panels.scope(
            "An adapter of the merge, or for the model at PATH (repeatable).",
            metavar="PATH[=WEIGHT]",
        ),
    ] = None
    equals: Annotated[
        str | None,
        panels.scope("A checkpoint that should hold the same values.", metavar="PATH"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueFlags:
    """--continue, and how the run goes on."""

    resume: Annotated[
        bool,
        panels.scope("Whether a run can be continued from PATH.", "--continue", "--resume"),
    ] = False
    gpus: Annotated[
        int | None,
        panels.scope("With --continue: GPUs of the resumed run.", min=1, max=MOST, metavar="N"),
    ] = None
    script: Annotated[
        str | None,
        panels.scope("With --continue: the script that resumes.", metavar="FILE"),
    ] = None
    facts: Annotated[
        Path | None,
        panels.scope("With --continue: facts of the environment that resumes.", metavar="FILE"),
    ] = None
