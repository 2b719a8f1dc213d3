"""What several checks of a rehearsal share."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from doctor._util.units import shown
from doctor.facts.guard import GuardError
from doctor.facts.rehearsal import Rehearsal, StageName
from doctor.facts.rehearsal_runs import RehearsedRun
from doctor.judge.check import Verdict, skip, unknown

WITHOUT_GRAPHS = (
    "Run the evaluation under torch.no_grad() or torch.inference_mode(), and add up .item() values."
)

ERROR = re.compile(
    r"(?:\[rank\d{1,5}\]: )?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)): (.*)", re.DOTALL
)


FRAME = re.compile(r' {2,8}File "([^"]{1,300})", line (\d{1,7})(?:, in |$)')
"""Of a traceback."""
LIBRARIES = ("site-packages", "dist-packages", "/lib/python", "<")
"""In the names of files that are not the user's."""


def error_in(text: str) -> GuardError | None:
    """Class and message; None where it is no error's."""
    match = ERROR.match(text)
    return GuardError(error=match[1], message=match[2], moment=0) if match else None


def not_tried(rehearsal: Rehearsal, name: StageName) -> Verdict | None:
    """The verdict where a stage was not tried; None where it was."""
    stage = rehearsal.stage(name)
    if stage.tried:
        return None
    text = f"not tried, because {shown(stage.reason, 300)}"
    return unknown(text) if stage.out_of_time else skip(text)


def unobserved(run: RehearsedRun | None) -> Verdict | None:
    """Unknown where a run, or its processes, were not observed to the end."""
    if run is None:
        return unknown("there is no record of the run")
    broken = next((rank for rank in run.ranks if rank.broken), None)
    if broken is not None:
        return unknown(f"rank {broken.rank} was no longer observed: {shown(broken.broken, 200)}")
    if not run.ranks:
        return unknown("no process of the command was observed")
    return None


def some(names: Sequence[str], count: int, most: int = 2) -> str:
    """ "a, b and 3 more"."""
    listed = ", ".join(shown(name, 120) for name in names[:most])
    more = count - min(len(names), most)
    return f"{listed} and {more} more" if more > 0 else listed


def last_line(run: RehearsedRun) -> str:
    """The last that it printed; "" for nothing."""
    return f": {shown(run.tail[-1], 300)}" if run.tail else ""


def place(run: RehearsedRun) -> str:
    """The user's line that an exception came from; "" for none."""
    found = next((rank.place for rank in run.ranks if rank.error and rank.place), "")
    found = found or ("" if run.ranks else _printed_place(run))
    return f", at {shown(found, 200)}" if found else ""


def _printed_place(run: RehearsedRun) -> str:
    """The last line of the user's in a traceback that was printed before torch was imported, and
    that ends what was printed: another may have been caught."""
    if not run.tail or error_in(run.tail[-1]) is None:
        return ""
    for line in itertools.takewhile(lambda line: line.startswith("  "), run.tail[-2::-1]):
        match = FRAME.match(line)
        if match and not any(part in match[1] for part in LIBRARIES):
            return f"{match[1]}:{match[2]}"
    return ""


def raised(run: RehearsedRun) -> str:
    """The exception that ended a rank, or the last line that was printed."""
    error = next((rank.error for rank in run.ranks if rank.error), "")
    return f": {shown(error, 300)}" if error else last_line(run)
