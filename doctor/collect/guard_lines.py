"""The lines that one process of a training recorded, which are untrusted."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

import msgspec

from doctor._util.secrets import hide_secrets
from doctor.facts.guard import (
    Code,
    GuardAlarm,
    GuardChecksums,
    GuardCounts,
    GuardedProcess,
    GuardError,
    GuardPoint,
    GuardSaved,
    Text,
)

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


OTHER_KINDS = ("history", "batches", "shares", "data")
"""For people, for replaying a batch, and for doctor.collect.guard_data."""

_decode = msgspec.json.Decoder(
    _Meta | _Step | _Alarm | _State | _Origin | _Checksums | _Saved | _End
).decode
_decode_other = msgspec.json.Decoder(_Other).decode


class ProcessLines:
    """The records of one process, as its lines are read."""

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
