"""Names of facts files that every node of a job can be given: %h, %n and %j."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from doctor._util.errors import UserError

if TYPE_CHECKING:
    from doctor.facts.launched import Launched

PATTERN = re.compile(r"%([hnj%])")
UNSAFE = re.compile(r"[^\w.-]")
MEANINGS = {
    "h": "the host's name",
    "n": "the node's number: start the doctor by srun, torchrun or mpirun, or omit it",
    "j": "the job: start the doctor by srun, torchrun or mpirun, or omit it",
}


def expanded(path: Path | None) -> Path | None:
    """The path with %h (host), %n (node rank), %j (job) and %% replaced; other % stay.

    Raises UserError where the launcher gives no such number.
    """
    if path is None or not PATTERN.search(str(path)):
        return path
    from doctor.collect.launcher import read_launcher  # --help imports no records

    launched = read_launcher()
    return Path(PATTERN.sub(lambda match: _value(match[1], launched, path), str(path)))


def _value(letter: str, launched: Launched | None, path: Path) -> str:
    values = {
        "h": (launched.node if launched else "") or platform.node(),
        "n": "" if launched is None or launched.rank is None else str(launched.rank),
        "j": launched.job if launched else "",
        "%": "%",
    }
    if not values[letter]:
        raise UserError(f"--save-facts {path}: %{letter} is {MEANINGS[letter]}")
    return values[letter] if letter == "%" else UNSAFE.sub("_", values[letter])
