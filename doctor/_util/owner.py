"""Who can fix a problem."""

from __future__ import annotations

from enum import StrEnum


class Owner(StrEnum):
    """Who can fix it: the training code, the image or virtual environment, or the host."""

    JOB = "job"
    ENVIRONMENT = "environment"
    MACHINE = "machine"
