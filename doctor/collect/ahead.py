"""Processes of a job's own model, which import their libraries while the first one is examined.

Importing torch, and transformers with a model, takes longer than everything that follows. These
processes import and then wait for a request: until then they use no GPU.
"""

from __future__ import annotations

from typing import NamedTuple

from doctor._util.records import Unknown
from doctor.collect.child import Child
from doctor.collect.children import Children, NotStartedError
from doctor.collect.driver import responds
from doctor.collect.own_training import OWN_SECONDS, STACKS_SHARE
from doctor.collect.torch_child import TorchChild
from doctor.facts.machine import Driver
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

IMPLEMENTATIONS = "training_side.attention.attention_implementations"


class Ahead(NamedTuple):
    """None: not started ahead."""

    own: TorchChild | None = None
    """For the job's own training."""
    implementations: Child | None = None
    """For the trial of attention implementations."""

    def end(self) -> None:
        """End those that were not needed."""
        if self.own is not None:
            self.own.end()
        if self.implementations is not None:
            self.implementations.kill()


def start_ahead(
    children: Children, python: str, job: Job, options: RunOptions, driver: Driver | Unknown | None
) -> Ahead:
    """Start what the job needs, unless the driver did not respond: transformers asks for GPUs.

    `driver`: the section of the facts, None for a job that needs none.
    """
    if not options.smoke or not (job.model or job.hf):
        return Ahead()
    if driver is not None and not responds(driver):
        return Ahead()
    own = TorchChild(children, python)
    if job.hf is None:
        return Ahead(own)
    subject = {"kind": "hf", "directory": job.hf, "lora": job.lora}
    own.announce(stage="prepare", subject=subject, limit=STACKS_SHARE * OWN_SECONDS)
    if "attention" in options.omitted:
        return Ahead(own)
    try:
        return Ahead(own, children.start(python, IMPLEMENTATIONS))
    except NotStartedError:
        return Ahead(own)
