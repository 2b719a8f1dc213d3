"""All rows, specific ones before general ones."""

from __future__ import annotations

from doctor.errors.tables import arguments, batches, gradients, optimizers, sizes, transforms

CAUSES = (
    *gradients.ROWS,
    *batches.ROWS,
    *arguments.ROWS,
    *optimizers.ROWS,
    *transforms.ROWS,
    *sizes.ROWS,
)
BY_ID = {cause.id: cause for cause in CAUSES}
RETIRED: dict[str, str] = {}
"""Id that is no longer used -> the id of the row that took its place."""
