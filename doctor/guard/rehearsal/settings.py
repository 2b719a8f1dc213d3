"""What the rehearsal wants of a process: one variable of the environment."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Optional

VARIABLE = "DOCTOR_REHEARSAL"


@dataclass(frozen=True)
class Settings:
    """`records` is the directory of the records, `output` that of the job, `writable` what it may
    write. At step `stop_at` (0: never) rank 0 waits until the file `go` exists. After `hashed`
    steps each of several ranks records its state: at these one of them saves. `counts`: the
    arithmetic of a step is counted."""

    records: str
    output: str
    writable: tuple[str, ...]
    stop_at: int = 0
    go: str = ""
    hashed: tuple[int, ...] = ()
    counts: bool = False


def from_environment() -> Optional[Settings]:
    """The settings; None where there are none. Raises ValueError."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    values = json.loads(text)
    lists = {name: tuple(values.get(name, ())) for name in ("writable", "hashed")}
    return Settings(**{**values, **lists})
