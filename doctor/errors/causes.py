"""All rows. Of two that have a message, the first of equally frequent ones counts, so tables of
specific causes come before those of families. To import all takes longer than to start a command:
`doctor.errors.match` finds the rows of a text without it."""

from __future__ import annotations

from doctor.errors.cause import Cause
from doctor.errors.tables import (
    arguments,
    assertions,
    batches,
    communication,
    cuda,
    data,
    devices,
    driver,
    environment,
    factory,
    files,
    gpu,
    gradients,
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
    rocm,
    scaler,
    schedules,
    shapes,
    sizes,
    transformers,
    transforms,
    types,
    values,
)

TABLES = (
    arguments,
    batches,
    gradients,
    optimizers,
    sizes,
    transforms,
    driver,
    memory,
    rocm,
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
    schedules,
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
