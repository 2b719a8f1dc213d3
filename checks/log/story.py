"""Which event of a log came first, and which ones follow from it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from doctor.checks.log.classes import BY_SLUG
from doctor.errors.cause import Cause
from doctor.errors.match import with_message
from doctor.facts.log import Log, LogEvent, RootCause
from doctor.log.collector import ENDED

BEGINNINGS = {"cause": 0, "crash": 0, "exception": 1, "consequence": 1}
"""Roles of events that can begin a failure: a specific cause goes before what may follow from it,
wherever it stands, since a watchdog or a kernel often reports it late."""
ANNOUNCES = re.compile(r"raised:\s*$|\bCheckpointException ranks:")
BELOW = 60
"""How a wrapper's line announces an exception, and the lines below it in which that stands: those
of a traceback."""
CLOSE = 20
"""Lines below a row that yields in which another one is of the same failure. Our own number."""
TEARDOWN = frozenset(
    ("crash", "consequence", "summary", "interrupted", "scheduler-ended", "nccl-error")
)
"""Roles and rows of what processes print when they are ended."""
WAITED = "ran"
"""Group of a line that says how long a collective was waited for."""
LOST, KILLED = "peer-lost", "killed-sigkill"
ENDS_OTHERS = "Forcefully terminating all other processes"
"""What a launcher writes before it kills the processes that have not failed."""
"""Ranks whose peer died say so before the launcher says which one."""
CANCELLED = "scheduler-ended"
OF_PROGRAM = re.compile(r"\bXid\b.{0,40}: (?:13|31|43|45)\b")
"""What the driver prints of a fault of the program, which prints more."""
CONFIRMED = frozenset(
    ("confirmed", "memcg", "slurm", "kubernetes", "ray", "transient", "persistent")
)
"""Groups of a line that says whose limit of memory a killed process had reached, or what was found
about the error of another line."""


@dataclass(frozen=True, slots=True)
class Story:
    """The events of a log, sorted into what they mean."""

    first: LogEvent | None = None
    """The first cause of a failure that the training did not overcome."""
    others: tuple[LogEvent, ...] = ()
    """Everything else that was not overcome: taken as its consequences."""
    overcome: tuple[LogEvent, ...] = ()
    """Events after which the training went on."""
    warnings: tuple[LogEvent, ...] = ()
    by_time: bool = False
    """Whether files were put in order by their times."""


def story_of(log: Log) -> Story:
    """The story of a log. Pure; computed once per log, and per run of it."""
    return _story_of(Same(log))


class Same:
    """A log as a key: facts hold dictionaries and have no hash."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def __hash__(self) -> int:
        return id(self.log)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.log is self.log


@lru_cache(maxsize=16)
def _story_of(same: Same) -> Story:
    log = same.log
    known = [event for event in log.events if event.name in BY_SLUG]
    settled = [event for event in known if _is_settled(event, log)]
    warnings = [each for each in known if role(each) == "warning" and each not in settled]
    serious = [event for event in known if role(event) != "warning"]
    open_ = [event for event in serious if not is_overcome(event) and event not in settled]
    candidates = [event for event in open_ if role(event) in BEGINNINGS]
    by_time = _comparable(candidates)
    files = {file.path: number for number, file in enumerate(log.files)}

    def order(event: LogEvent) -> tuple[float, float, float, int, int]:
        time = event.time if by_time and event.time is not None else 0.0
        late: float = BEGINNINGS[role(event)]
        if role(event) == "crash" or _is_ended_by_launcher(event, open_):
            late = _lateness_of_crash(event, open_, log.root_causes)
        consequence = role(event) == "consequence"
        other = consequence or not _is_of_root(event, log.root_causes)
        if len(log.files) > 1 and not by_time:  # lines of two files have no order
            return late, consequence, other, files.get(event.path, 0), event.line
        return late, other, time, files.get(event.path, 0), event.line

    first = min(candidates, key=order, default=None)
    if first is not None:
        preferred = [each for each in candidates if _says_more(each, first)]
        preferred = preferred or [each for each in candidates if _is_passed_on(each, first)]
        first = min(preferred, key=order, default=first)
        alike = [each for each in candidates if _is_reported_by(first, each)]
        first = min(alike, key=order, default=first)
    return Story(
        first=first,
        others=tuple(event for event in open_ if event is not first),
        overcome=(*(event for event in serious if is_overcome(event)), *settled),
        warnings=tuple(warnings),
        by_time=by_time,
    )


PROBE = re.compile(r"_?is_\w{1,40}_available")
"""A function that asks whether a package is there, and prints the traceback that says no."""
ON_THE_CPU, WARNED = ("driver-too-old",), "UserWarning: CUDA initialization"
OF_GPU = re.compile(
    r"cuda|gpu|nvidia|nvml|nccl|triton|device|accelerator|bf16|fp16|half", re.IGNORECASE
)
"""What an exception, or the code that raised it, names where it may follow from a GPU that cannot
be used."""
OF_FILE = re.compile(r'File "(?:[^"]*(?:site|dist)-packages/|[^"]*")')
"""A file, or the directory in which a package of it is installed."""
STATED = {"nothing-trainable": "trainable_params"}
"""Warnings about a number, and the setting that a later line may state above 0: the parameters
before an adapter is added."""


def _is_settled(event: LogEvent, log: Log) -> bool:
    """Whether a later line says that what a warning asks for was done, and steps followed; or a
    program went on without its GPU or without a package, and failed of something else."""
    if PROBE.fullmatch(event.groups.get("functions", "")):
        return True
    if event.name in ON_THE_CPU and WARNED in event.text and _fails_by_itself(event, log):
        return True
    after = [each for each in log.stated if each.path == event.path and each.line > event.line]
    if any(each.number and each.name == STATED.get(event.name) for each in after):
        return True
    return (
        role(event) == "warning"
        and event.recovered
        and any(
            each.name in class_of(event).yields_to
            and each.path == event.path
            and each.line > event.line
            for each in log.harmless
        )
    )


def _fails_by_itself(warned: LogEvent, log: Log) -> bool:
    """Whether the exceptions of the program below a warning are not about the GPU."""
    below = [
        each
        for each in log.events
        if each.path == warned.path and each.line > warned.line and "code" in each.groups
    ]
    return bool(below) and not any(map(OF_GPU.search, map(_raised, below)))


def _raised(event: LogEvent) -> str:
    """An exception and the code that raised it, without the places of files on the machine."""
    lines = (OF_FILE.sub("", line) for line in event.excerpt)
    return "\n".join((event.groups.get("source", ""), *lines))


def is_overcome(event: LogEvent) -> bool:
    """Whether steps were logged after it, or it only took down a run that had ended well: not a
    watchdog's report, which comes after a wait of minutes."""
    tears_down = (role(event) in TEARDOWN or event.name in TEARDOWN) and WAITED not in event.groups
    return event.recovered or (ENDED in event.groups and tears_down)


def _says_more(event: LogEvent, first: LogEvent) -> bool:
    """Whether an event says more about the same failure than the one that seems to begin it."""
    if event.name not in class_of(first).yields_to:
        return False
    below = event.path == first.path and 0 < event.line - first.line <= CLOSE
    if class_of(event).role == "consequence" or (below and event.name != KILLED):
        return True
    return bool(CONFIRMED & event.groups.keys()) and "reason" not in first.groups


def _is_reported_by(first: LogEvent, event: LogEvent) -> bool:
    """Whether the first is a rank's exception for an earlier line of a library that names none."""
    earlier = event.path == first.path and event.line < first.line
    return earlier and event.name == first.name and event.rank is None and first.rank is not None


def _is_passed_on(event: LogEvent, first: LogEvent) -> bool:
    """Whether the first is a wrapper's line that announces this exception right below it."""
    announces = ANNOUNCES.search(first.text)
    below = event.path == first.path and 0 < event.line - first.line <= BELOW
    return bool(announces) and below and bool(class_of(event).messages or with_message(event.text))


def _lateness_of_crash(
    event: LogEvent, events: list[LogEvent], roots: tuple[RootCause, ...]
) -> float:
    """A process that crashes begins a failure, unless something else ended it before: an exception
    of its own, SIGTERM, an abort. What the launcher calls the first failure begins one."""
    if any(_is_within(event, root) and root.exitcode < 0 for root in roots):
        return 0
    earlier = (each for each in events if each.path == event.path and each.line < event.line)
    return 1 if any(role(each) != "summary" and each.name != LOST for each in earlier) else 0


def _is_ended_by_launcher(event: LogEvent, events: list[LogEvent]) -> bool:
    """Whether a process was killed after the launcher had said that it ends all others."""
    if event.name != KILLED or CONFIRMED & event.groups.keys():
        return False
    return any(
        each.path == event.path
        and each.line < event.line
        and ENDS_OTHERS in "\n".join(each.excerpt)
        for each in events
    )


def _is_of_root(event: LogEvent, roots: tuple[RootCause, ...]) -> bool:
    """Whether an event is of the rank that the launcher saw fail first."""
    return any(root.rank is not None and root.rank == event.rank for root in roots)


def _is_within(event: LogEvent, root: RootCause) -> bool:
    """Whether a line is one of the launcher's account, or names the same rank."""
    inside = root.line <= event.line <= root.last_line or root.line <= event.last_line
    return event.path == root.path and (inside or event.rank == root.rank)


def _comparable(events: list[LogEvent]) -> bool:
    """Whether all of these have times, and of one kind: with a year or without."""
    times = [event.time for event in events]
    if any(time is None for time in times):
        return False
    years = {math.floor((time or 0.0) / 31_557_600) == 30 for time in times}
    return len(years) <= 1


def role(event: LogEvent) -> str:
    """That of the class; srun cancels a step for no stated reason when one of its tasks failed,
    and some Xids follow from an error of the program."""
    if event.name == CANCELLED and not event.groups:
        return "crash"
    if OF_PROGRAM.search(event.text) or _is_of_spawned(event):
        return "consequence"
    return class_of(event).role


def _is_of_spawned(event: LogEvent) -> bool:
    """Whether a child got less than it needs from its parent, which failed while it sent it."""
    return "EOFError" in event.text and "spawn_main" in event.groups.get("functions", "")


def class_of(event: LogEvent) -> Cause:
    return BY_SLUG[event.name]
