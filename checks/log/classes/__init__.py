"""The table of log classes; CONTRIBUTING tells how to add one."""

from __future__ import annotations

from doctor.checks.log.classes import (
    communication,
    files,
    gpu,
    kernels,
    memory,
    packages,
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
            *kernels.CLASSES,
            *communication.CLASSES,
            *processes.CLASSES,
            *precision.CLASSES,
            *packages.CLASSES,
            *files.CLASSES,
            *scaler.CLASSES,
        ),
        key=lambda each: each.code,
    )
)
BY_SLUG = {each.slug: each for each in CLASSES}
