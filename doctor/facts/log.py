"""What the logs of a training contain: files, events, curves. No thresholds, no verdicts."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Number, Section
from doctor._util.text_fields import Product
from doctor.facts.stated import Setting


class LogFile(Section, frozen=True):
    """A file of the log, read to its end unless `problem` says otherwise."""

    path: str
    kind: str
    """text, trainer-state, csv, json-lines or tensorboard."""
    bytes: int = 0
    """Bytes that were read, after decompression."""
    lines: int = 0
    rank: int | None = None
    """The rank that the file's name gives."""
    problem: str = ""
    """Why it was not read, or not to its end."""
    finished: int | None = None
    """The line that says that the training ended, with no metrics after it; 0: none does."""
    starts: tuple[int, ...] = ()
    """Lines that begin a training with new weights, so that curves before and after are two."""
    scratch: tuple[int, ...] = ()
    """Those of them that say that there was no checkpoint to resume from."""


class LogEvent(Section, frozen=True):
    """Lines of one class from one rank of one file, without a training step between them."""

    name: str
    """The class: the slug of a LOG check, or the name of a harmless text."""
    path: str
    line: int
    """Of the first one, from 1, in lines that end with a newline."""
    rank: int | None = None
    time: float | None = None
    """Seconds since 1970 as the log writes them, in whatever time zone that is."""
    text: str = ""
    """The first line, without control characters."""
    excerpt: tuple[str, ...] = ()
    """The decisive lines, the first one and the end of its traceback."""
    groups: dict[str, str] = {}
    """What the named groups of the class's expression matched."""
    count: int = 1
    last_line: int = 0
    last_time: float | None = None
    recovered: bool = False
    """Training steps were logged after it, or the training ended well."""


class Curve(Section, frozen=True):
    """A metric over the steps; long curves are thinned evenly, non-finite values are all kept."""

    name: str
    """loss, eval_loss, grad_norm, learning_rate, throughput, step_time, loss_scale, reward;
    reward_spread: how much the rewards of one prompt's completions differ; score:NAME of an
    evaluation; value_loss, explained_variance and episode_reward of a policy and its critic."""
    path: str
    rank: int | None = None
    steps: tuple[int, ...] = ()
    values: tuple[Number, ...] = ()
    lines: tuple[int, ...] = ()
    """The line of each value, 0 where the file has none."""
    points: int = 0
    """Values in the log, before thinning."""
    thinned: int = 1
    """One of this many values was kept."""
    counts: Literal["step", "row"] = "step"
    """What the steps are: training steps, or "row" where no row of the log names one."""


class RootCause(Section, frozen=True):
    """The process that failed first, as torchrun's account says it."""

    path: str
    line: int
    last_line: int = 0
    rank: int | None = None
    host: Product = ""
    exitcode: int = 0
    """Of the process; below 0 the signal that ended it."""
    time: float | None = None


class RankSeen(Section, frozen=True):
    """The last metrics or event of a rank."""

    rank: int
    path: str
    line: int
    step: int | None = None
    time: float | None = None
    named: bool = False
    """A line calls it a rank, or the name of a file; else it is a bare number, maybe a step."""


class Log(Section, frozen=True):
    """Everything that was read from the logs that the user named."""

    files: tuple[LogFile, ...]
    events: tuple[LogEvent, ...] = ()
    """In the order of the files and of their lines."""
    harmless: tuple[LogEvent, ...] = ()
    curves: tuple[Curve, ...] = ()
    versions: dict[str, Product] = {}
    """Package -> version, as the log prints it."""
    last_step: int | None = None
    """The highest training step that was logged."""
    omitted: int = 0
    """Events beyond the number that is kept."""
    root_causes: tuple[RootCause, ...] = ()
    ranks: tuple[RankSeen, ...] = ()
    """Ranks that lines name, or the names of files."""
    stated: tuple[Setting, ...] = ()
    """What the logs state about their run, in the order of the files and of their lines."""

    @property
    def lines(self) -> int:
        return sum(file.lines for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)
