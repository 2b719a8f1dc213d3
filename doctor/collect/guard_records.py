"""Reads what the guard wrote: JSON lines of every rank, which are untrusted."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from doctor._util.records import Unknown
from doctor._util.regular_file import read_regular
from doctor._util.secrets import hide_in_arguments, hide_secrets
from doctor.collect.training_gpus import TrainingGpus, decode
from doctor.facts.guard import (
    Code,
    EarlierCheckpoint,
    GuardAlarm,
    GuardChecksums,
    GuardCounts,
    Guarded,
    GuardedProcess,
    GuardError,
    GuardPoint,
    GuardSaved,
    GuardStall,
    Text,
)

FILE = re.compile(r"rank(\d{1,7})-(\d{1,10})\.jsonl")
RUN = "run.json"
"""Written by the parent: the command and how it ended."""
STALLS = "stalls.json"
"""Written by the parent: ranks that were without a step for long."""
GPUS = "gpus.json"
"""Written by the parent: what NVML recorded meanwhile."""
MOST_BYTES = 64 * 2**20
"""Of one file; the guard writes a quarter of it at most."""
MOST_FILES = 4096
MOST_POINTS = 20_000
MOST_ALARMS = 1000
MOST_CHECKSUMS, MOST_SUMS = 100, 64
MOST_SAVED = 200


class _Meta(msgspec.Struct, tag="meta", tag_field="kind"):
    rank: int
    world: int
    pid: int
    started: int
    torch: Text
    all: bool = False


class _Step(msgspec.Struct, tag="step", tag_field="kind"):
    s: int
    o: int = 0
    loss: float | str | None = None
    norm: float | str | None = None
    rate: float | str | None = None
    scale: float | str | None = None
    skipped: int = 0


class _Alarm(msgspec.Struct, tag="alarm", tag_field="kind"):
    code: Code
    status: Literal["note", "warn", "fail"]
    step: int
    text: Text
    cause: Text = ""
    count: int = 1
    names: tuple[Text, ...] = ()
    moment: int = 0


_State = msgspec.defstruct(
    "_State",
    [(field.name, field.type, field.default) for field in msgspec.structs.fields(GuardCounts)],
    tag="state",
    tag_field="kind",
)
"""The counts as they are recorded."""


class _Origin(msgspec.Struct, tag="origin", tag_field="kind"):
    text: Text


class _Saved(msgspec.Struct, tag="saved", tag_field="kind"):
    path: Text
    step: int
    moment: int


class _Checksums(msgspec.Struct, tag="checksums", tag_field="kind"):
    s: int
    o: int
    v: tuple[int, ...]
    names: tuple[Text, ...] = ()


class _End(msgspec.Struct, tag="end", tag_field="kind"):
    how: Text
    error: Text = ""
    message: Text = ""
    moment: int = 0


class _Other(msgspec.Struct):
    kind: str


class _Run(msgspec.Struct):
    command: tuple[Text, ...] = ()
    exit_code: int | None = None
    signal: Text = ""
    stopped: bool = False
    watched: int = 0
    checkpoint: EarlierCheckpoint | None = None


OTHER_KINDS = ("history", "batches", "shares", "data")
"""For people, for replaying a batch, and for doctor.collect.guard_data."""

_decode = msgspec.json.Decoder(
    _Meta | _Step | _Alarm | _State | _Origin | _Checksums | _Saved | _End
).decode
_decode_other = msgspec.json.Decoder(_Other).decode


def read_records(directory: Path) -> Guarded | Unknown:
    """What the guard recorded in `directory`. Raises OSError where that cannot be listed."""
    names = [entry.name for entry in directory.iterdir() if FILE.fullmatch(entry.name)]
    files = sorted(names, key=_number)[:MOST_FILES]
    everything = [p for p in map(_read_process, (directory / name for name in files)) if p]
    everything = [p for p in everything if not _never_trained(p)] or everything
    everything.sort(key=lambda process: process.started)
    latest = [p for p in everything if p.world == everything[-1].world]
    processes = {process.rank: process for process in latest}
    restarts = len(everything) - len(processes)
    run = _read_run(directory / RUN)
    began = any(process.counts.steps or process.alarms for process in processes.values())
    if not began and not run.exit_code:
        return Unknown(reason=_without_steps(processes))
    return Guarded(
        processes=tuple(processes[rank] for rank in sorted(processes)),
        restarts=restarts,
        command=hide_in_arguments(run.command),
        exit_code=run.exit_code,
        signal=run.signal,
        stopped=run.stopped,
        watched=run.watched,
        stalls=_read_stalls(directory / STALLS),
        checkpoint=run.checkpoint,
    )


def _never_trained(process: GuardedProcess) -> bool:
    """Whether the guard switched itself off in it before it trained, if it ever did."""
    counts = process.counts
    began = counts.steps or counts.backwards or process.alarms
    return process.ended.startswith("error") and not began


def _number(name: str) -> tuple[int, int]:
    match = FILE.fullmatch(name)
    assert match is not None
    return int(match[1]), int(match[2])


def _without_steps(processes: dict[int, GuardedProcess]) -> str:
    backwards = sum(process.counts.backwards for process in processes.values())
    errors = [p.ended for p in processes.values() if p.ended.startswith("error")]
    if errors:
        return f"the guard switched itself off before the first step: {errors[0]}"
    if backwards:
        return (
            f"{backwards} backward passes and no step of a torch.optim optimizer were observed; "
            "report steps with doctor.guard.Guard().step(loss)"
        )
    return (
        "no training step was observed: the program did not train with torch, or its Python "
        "ignores PYTHONPATH (python -I, -E or -S)"
    )


class _Process:
    """The records of one file, as they are read."""

    def __init__(self) -> None:
        self.meta: _Meta | None = None
        self.counts = GuardCounts()
        self.alarms: dict[tuple[str, str, str], GuardAlarm] = {}
        self.points: list[GuardPoint] = []
        self.checksums: list[GuardChecksums] = []
        self.saved: deque[GuardSaved] = deque(maxlen=MOST_SAVED)
        self.origin = self.ended = ""
        self.error: GuardError | None = None
        self.unreadable = 0

    def read(self, line: bytes) -> None:
        """Take in one line."""
        try:
            record = _decode(line)
        except msgspec.DecodeError:
            self.unreadable += not _is_other(line)
            return
        match record:
            case _Meta():
                self.meta = record
            case _Step():
                self._add_point(record)
            case _Alarm():
                self._add_alarm(record)
            case _:
                self._add_other(record)

    def _add_other(self, record: Any) -> None:
        match record:
            case _Checksums():
                self._add_checksums(record)
            case _Saved():
                self.saved.append(GuardSaved(**msgspec.structs.asdict(record)))
            case _Origin():
                self.origin = record.text
            case _End():
                self.ended = record.how
                if record.error:
                    self.error = GuardError(
                        error=record.error,
                        message=hide_secrets(record.message),
                        moment=record.moment,
                    )
            case _:
                self.counts = GuardCounts(**msgspec.structs.asdict(record))

    def _add_point(self, record: _Step) -> None:
        if len(self.points) < MOST_POINTS:
            try:
                self.points.append(_point(record))
            except msgspec.ValidationError:
                self.unreadable += 1

    def _add_alarm(self, record: _Alarm) -> None:
        """The first text of an alarm stays, its count grows."""
        key = record.code, record.status, record.cause
        first = self.alarms.get(key)
        if first is not None:
            self.alarms[key] = msgspec.structs.replace(
                first, last_step=record.step, count=record.count
            )
        elif len(self.alarms) < MOST_ALARMS:
            self.alarms[key] = GuardAlarm(
                code=record.code,
                status=record.status,
                step=record.step,
                last_step=record.step,
                count=record.count,
                text=record.text,
                cause=record.cause,
                names=record.names,
                moment=record.moment,
            )

    def _add_checksums(self, record: _Checksums) -> None:
        if len(self.checksums) < MOST_CHECKSUMS:
            self.checksums.append(
                GuardChecksums(
                    optimizer=record.o,
                    step=record.s,
                    values=record.v[:MOST_SUMS],
                    names=record.names[:MOST_SUMS],
                )
            )

    def finish(self) -> GuardedProcess | None:
        """The process; None where the file has no head."""
        if self.meta is None:
            return None
        steps = max((point.step for point in self.points), default=0)
        if self.counts.steps < steps:  # killed before it wrote its counts
            self.counts = msgspec.structs.replace(self.counts, steps=steps)
        head: dict[str, Any] = msgspec.structs.asdict(self.meta)
        return GuardedProcess(
            **head,
            ended=self.ended,
            error=self.error,
            counts=self.counts,
            alarms=tuple(self.alarms.values()),
            points=tuple(self.points),
            checksums=tuple(self.checksums),
            saved=tuple(self.saved),
            origin=self.origin,
            unreadable=self.unreadable,
        )


def _read_process(path: Path) -> GuardedProcess | None:
    process = _Process()
    for line in lines(path):
        process.read(line)
    return process.finish()


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file; one that cannot be read has none."""
    try:
        yield from read_regular(str(path), MOST_BYTES).splitlines()
    except OSError:
        return


def _is_other(line: bytes) -> bool:
    try:
        return _decode_other(line).kind in OTHER_KINDS
    except msgspec.DecodeError:
        return False


def _point(record: _Step) -> GuardPoint:
    """Raises msgspec.ValidationError for a text that is not a number."""
    fields = {"optimizer": record.o, "step": record.s, "skipped": bool(record.skipped)}
    values = {name: getattr(record, name) for name in ("loss", "norm", "rate", "scale")}
    return msgspec.convert({"type": "GuardPoint", **fields, **values}, GuardPoint)


def read_gpus(directory: Path) -> TrainingGpus:
    """What NVML recorded beside them; without GPUs where there is no such record."""
    return decode(b"\n".join(lines(directory / GPUS)))


def _read_stalls(path: Path) -> tuple[GuardStall, ...]:
    try:
        return msgspec.json.decode(b"\n".join(lines(path)), type=tuple[GuardStall, ...])[
            :MOST_FILES
        ]
    except msgspec.DecodeError:
        return ()


def _read_run(path: Path) -> _Run:
    try:
        return msgspec.json.decode(b"\n".join(lines(path)), type=_Run)
    except msgspec.DecodeError:
        return _Run()
