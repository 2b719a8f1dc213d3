"""How a run examines the machine, as opposed to the training it examines it for."""

from __future__ import annotations

from typing import Annotated

import msgspec

from doctor.job.quantities import LONGEST, SHORTEST


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Recorded in the facts, so that a facts file states which sections were not collected."""

    smoke: bool = True
    """Run the training step."""
    quick: bool = False
    """Omit the tests under load and shorten the attention trial."""
    memory_test: bool = False
    """Write and read back patterns in nearly all of the free memory of the job's GPUs."""
    loader: bool = True
    """Read the loader of `model` once more, for the checks of data that are selected."""
    rehearse: bool = False
    """Also save, evaluate, stop and continue the training of `model` or `hf`."""
    ranks: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Processes on this machine that do so."""
    budget: Annotated[float, msgspec.Meta(ge=SHORTEST, le=LONGEST)] | None = None
    """Seconds that the examination may take; None: no limit."""
    omitted: tuple[str, ...] = ()
    """Sections of the facts that did not fit into the budget."""
    only: tuple[str, ...] = ()
    """Codes, slugs or families that were selected; (): all."""
    skip: tuple[str, ...] = ()
    """Codes, slugs or families that were excluded."""
