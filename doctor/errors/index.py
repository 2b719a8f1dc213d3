"""What is known of the rows before their tables are imported: `index.json`, which `.ci/update`
writes."""

from __future__ import annotations

import json
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


ENTRIES = {id: Entry(*each) for id, each in json.loads(FILE.read_text("utf-8")).items()}
"""By row, in the order of `doctor.errors.causes`."""
