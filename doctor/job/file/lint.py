"""The table [lint] of a job file."""

from __future__ import annotations

import msgspec

from doctor.job.expect import Text


class LintTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `doctor lint` leaves out."""

    ignore: tuple[Text, ...] = ()
    """Codes, slugs or families."""
    per_file_ignores: dict[Text, tuple[Text, ...]] = {}
    """A pattern on paths -> codes, slugs or families."""
    exclude: tuple[Text, ...] = ()
    """Patterns on paths and names of directories that are not read."""
