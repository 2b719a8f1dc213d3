"""The table of log classes; CONTRIBUTING tells how to add one."""

from __future__ import annotations

from doctor.checks.log.classes import (
    communication,
    environment,
    gpu,
    memory,
    precision,
    processes,
    scaler,
)
from doctor.checks.log.classes.harmless import HARMLESS, Harmless
from doctor.checks.log.classes.log_class import LogClass, Remedy, Role

__all__ = ["BY_SLUG", "CLASSES", "HARMLESS", "Harmless", "LogClass", "Remedy", "Role"]

CLASSES: tuple[LogClass, ...] = tuple(
    sorted(
        (
            *memory.CLASSES,
            *gpu.CLASSES,
            *communication.CLASSES,
            *processes.CLASSES,
            *precision.CLASSES,
            *environment.CLASSES,
            *scaler.CLASSES,
        ),
        key=lambda each: each.code,
    )
)
BY_SLUG = {each.slug: each for each in CLASSES}
