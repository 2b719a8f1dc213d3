"""What is known of the rows before their tables are imported: `index.json`, which `.ci/update`
writes."""

from __future__ import annotations

import json
import pkgutil
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_suffix(".json")


class Entry(NamedTuple):
    """A row of `doctor.errors.causes`."""

    table: str
    """Its module in `doctor.errors.tables`."""
    frequency: int
    """How many messages of the corpora have it."""
    literals: list[list[str]]
    """For each of its expressions texts, in small letters, of which every match contains one."""


_ROWS = json.loads(pkgutil.get_data(__name__, FILE.name) or b"{}")  # also within an archive
ENTRIES = {id: Entry(*each) for id, each in _ROWS.items()}
"""By row, in the order of `doctor.errors.causes`."""
