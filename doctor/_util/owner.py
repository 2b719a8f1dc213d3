"""Who can fix a problem."""

from __future__ import annotations

from enum import StrEnum


class Owner(StrEnum):
    """Who can fix it: the training code, the image or virtual environment, or the host."""

    JOB = "job"
    ENVIRONMENT = "environment"
    MACHINE = "machine"


OWNERS = {
    Owner.JOB: "your code or its settings",
    Owner.ENVIRONMENT: "image or environment",
    Owner.MACHINE: "host or provider",
}
"""Who can fix it, as reports print it."""
