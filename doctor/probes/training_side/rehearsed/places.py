"""How long the small training is, and where it records what only it knows."""

from __future__ import annotations

import json
import os

from ..foreign import Foreign

STEPS, EVERY = 8, 3
"""Steps in all; after how many it evaluates and saves."""
FILE = "factory.jsonl"
VARIABLE = "DOCTOR_REHEARSAL"


def settings() -> Foreign:
    """What doctor rehearse wants of this process; {} outside of one."""
    return json.loads(os.environ.get(VARIABLE, "{}"))


def record(kind: str, **fields: Foreign) -> None:
    """One line of rank 0 beside the other records of this run."""
    directory = settings().get("records")
    if directory and os.environ.get("RANK", "0") == "0":
        with open(os.path.join(directory, FILE), "a") as file:
            file.write(json.dumps({"kind": kind, **fields}) + "\n")
