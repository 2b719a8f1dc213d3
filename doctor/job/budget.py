"""Which parts of an examination fit into --budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from doctor.job.job import Job
from doctor.job.run_options import RunOptions


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the examination that a small budget has no time for."""

    seconds: float
    """The smallest budget that has time for it. Our own number, for a warm disk."""
    name: str
    sections: tuple[str, ...]
    """Sections of the facts that it fills."""
    without_job: Mapping[str, object] = field(default_factory=dict)
    """Fields of the job that omit it."""
    without_options: Mapping[str, object] = field(default_factory=dict)
    """Fields of the run options that omit it."""


PARTS = (
    Part(180.0, "memory test", ("memory_tests",), without_options={"memory_test": False}),
    Part(60.0, "tests under load", ("load", "peers"), without_options={"quick": True}),
    Part(60.0, "comparison under torch.compile", (), {"compile": False}),
    Part(
        30.0,
        "the step of your own model",
        ("own",),
        {"model": None, "hf": None, "layers": None, "weights": False},
    ),
    Part(30.0, "attention trial", ("attention",)),
    Part(10.0, "training step", ("smoke", "watched"), without_options={"smoke": False}),
)
"""The slowest first. The driver, torch, disks and the checkpoint's headers are never omitted."""


def reduce(
    job: Job, options: RunOptions, seconds: float
) -> tuple[Job, RunOptions, tuple[str, ...]]:
    """The job and the options without what exceeds the budget, and the names of those parts."""
    omitted = [
        part for part in PARTS if seconds < part.seconds and _requested(job, options, part.name)
    ]
    for part in omitted:
        job = msgspec.structs.replace(job, **part.without_job)
        options = msgspec.structs.replace(options, **part.without_options)
    sections = tuple(section for part in omitted for section in part.sections)
    options = msgspec.structs.replace(options, budget=seconds, omitted=sections)
    return job, options, tuple(part.name for part in omitted)


def _requested(job: Job, options: RunOptions, name: str) -> bool:
    """Whether the run would do this part if it had the time."""
    return {
        "memory test": options.memory_test,
        "tests under load": not options.quick,
        "comparison under torch.compile": job.compile,
        "the step of your own model": bool(job.model or job.hf),
        "training step": options.smoke,
    }.get(name, True)
