"""All rows. Of two that have a message, the first of equally frequent ones counts, so tables of
specific causes come before those of families."""

from __future__ import annotations

from doctor.errors.cause import Cause
from doctor.errors.tables import (
    assertions,
    communication,
    cuda,
    data,
    devices,
    driver,
    environment,
    factory,
    files,
    gpu,
    graph,
    harmless,
    kernels,
    layers,
    losses,
    memory,
    modules,
    optimizers,
    packages,
    precision,
    processes,
    scaler,
    shapes,
    transformers,
    types,
    values,
)

TABLES = (
    driver,
    memory,
    cuda,
    assertions,
    gpu,
    kernels,
    communication,
    processes,
    shapes,
    layers,
    types,
    devices,
    losses,
    graph,
    modules,
    optimizers,
    data,
    transformers,
    values,
    environment,
    packages,
    files,
    factory,
    precision,
    scaler,
    harmless,
)
CAUSES: tuple[Cause, ...] = tuple(cause for table in TABLES for cause in table.ROWS)
BY_ID = {cause.id: cause for cause in CAUSES}
RETIRED: dict[str, str] = {}
"""Id that is no longer used -> the id of the row that took its place."""
