"""Reads what the guard wrote: JSON lines of every rank, which are untrusted."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from doctor._util.records import Unknown
from doctor.facts.guard import (
    Code,
    GuardAlarm,
    GuardCounts,
    Guarded,
    GuardedProcess,
    GuardPoint,
    Text,
)

FILE = re.compile(r"rank(\d{1,7})-(\d{1,10})\.jsonl")
RUN = "run.json"
"""Written by the parent: the command and how it ended."""
MOST_BYTES = 64 * 2**20
"""Of one file; the guard writes a quarter of it at most."""
MOST_FILES = 4096
MOST_POINTS = 20_000
MOST_ALARMS = 1000


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
    status: str
    step: int
    text: Text
    cause: Text = ""
    count: int = 1
    names: tuple[Text, ...] = ()


class _State(msgspec.Struct, tag="state", tag_field="kind"):
    steps: int = 0
    backwards: int = 0
    losses: int = 0
    norms: int = 0
    rates: int = 0
    looks: int = 0
    effective: int = 0
    skipped: int = 0
    scaled: bool = False
    tracked: int = 0
    gradients: int = 0
    ones: int = 0
    zeros: int = 0
    vectors: int = 0
    half: int = 0
    dropped: int = 0
    optimizers: tuple[Text, ...] = ()
    seconds: float = 0.0


class _Origin(msgspec.Struct, tag="origin", tag_field="kind"):
    text: Text


class _End(msgspec.Struct, tag="end", tag_field="kind"):
    how: Text


class _Other(msgspec.Struct):
    kind: str


class _Run(msgspec.Struct):
    command: tuple[Text, ...] = ()
    exit_code: int | None = None
    stopped: bool = False


OTHER_KINDS = ("history", "batches", "shares")
"""For people and for replaying a batch; the report has no use for them."""

_decode = msgspec.json.Decoder(_Meta | _Step | _Alarm | _State | _Origin | _End).decode
_decode_other = msgspec.json.Decoder(_Other).decode


def read_records(directory: Path) -> Guarded | Unknown:
    """What the guard recorded in `directory`. Raises OSError where that cannot be listed."""
    files = sorted((name for name in os.listdir(directory) if FILE.fullmatch(name)), key=_number)[
        :MOST_FILES
    ]
    processes: dict[int, GuardedProcess] = {}
    restarts = 0
    for name in files:
        process = _read_process(directory / name)
        if process is None:
            continue
        earlier = processes.get(process.rank)
        restarts += earlier is not None
        if earlier is None or earlier.started <= process.started:
            processes[process.rank] = process
    if not any(process.counts.steps or process.alarms for process in processes.values()):
        return Unknown(reason=_without_steps(processes))
    run = _read_run(directory / RUN)
    return Guarded(
        processes=tuple(processes[rank] for rank in sorted(processes)),
        restarts=restarts,
        command=run.command,
        exit_code=run.exit_code,
        stopped=run.stopped,
    )


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


def _read_process(path: Path) -> GuardedProcess | None:
    """One process; None where the file has no head."""
    meta: _Meta | None = None
    counts, origin, ended, unreadable, steps = GuardCounts(), "", "", 0, 0
    alarms: dict[tuple[str, str, str], GuardAlarm] = {}
    points: list[GuardPoint] = []
    for line in _lines(path):
        try:
            record = _decode(line)
        except msgspec.DecodeError:
            unreadable += not _is_other(line)
            continue
        match record:
            case _Meta():
                meta = record
            case _Step() if (point := _point(record)) and len(points) < MOST_POINTS:
                points.append(point)
                steps = max(steps, point.step)
            case _Alarm() if record.status in ("warn", "fail") and len(alarms) < MOST_ALARMS:
                _add(alarms, record)
            case _State():
                counts = _counts(record)
            case _Origin():
                origin = record.text
            case _End():
                ended = record.how
    if meta is None:
        return None
    if counts.steps < steps:  # killed before it wrote its counts
        counts = msgspec.structs.replace(counts, steps=steps)
    head: dict[str, Any] = msgspec.structs.asdict(meta)
    return GuardedProcess(
        **head,
        ended=ended,
        counts=counts,
        alarms=tuple(alarms.values()),
        points=tuple(points),
        origin=origin,
        unreadable=unreadable,
    )


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file; one that cannot be read has none."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as f:
            if stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                yield from f.read(MOST_BYTES).splitlines()
    except OSError:
        return


def _is_other(line: bytes) -> bool:
    try:
        return _decode_other(line).kind in OTHER_KINDS
    except msgspec.DecodeError:
        return False


def _point(record: _Step) -> GuardPoint | None:
    try:
        return msgspec.convert(
            {
                "optimizer": record.o,
                "step": record.s,
                "loss": record.loss,
                "norm": record.norm,
                "rate": record.rate,
                "scale": record.scale,
                "skipped": bool(record.skipped),
                "type": "GuardPoint",
            },
            GuardPoint,
        )
    except msgspec.ValidationError:
        return None


def _add(alarms: dict[tuple[str, str, str], GuardAlarm], record: _Alarm) -> None:
    """The first text of an alarm stays, its count grows."""
    key = record.code, record.status, record.cause
    first = alarms.get(key)
    if first is None:
        alarms[key] = GuardAlarm(
            code=record.code,
            status="fail" if record.status == "fail" else "warn",
            step=record.step,
            last_step=record.step,
            count=record.count,
            text=record.text,
            cause=record.cause,
            names=record.names,
        )
    else:
        alarms[key] = msgspec.structs.replace(first, last_step=record.step, count=record.count)


def _counts(record: _State) -> GuardCounts:
    return GuardCounts(**msgspec.structs.asdict(record))


def _read_run(path: Path) -> _Run:
    try:
        return msgspec.json.decode(b"\n".join(_lines(path)), type=_Run)
    except msgspec.DecodeError:
        return _Run()
