"""What a probe writes, line by line, and the result of one request."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from doctor._util.records import Ended

NOTES = 100_000
"""The most notes and stages of one request; a probe that writes more is broken."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one request."""

    ended: Ended
    answer: dict[str, Any] | None = None
    notes: tuple[dict[str, Any], ...] = ()
    stages: tuple[tuple[str, Ended], ...] = ()
    """The calls, in the order of the first entry, and how each ended; repeated ones are summed."""
    busy: bool | None = None
    """Whether the process computed when its time was over; None: it ended in time."""
    uninterruptible: bool | None = None
    """Whether it waited in the kernel then, in state D and without CPU time."""

    @property
    def ended_with_stage(self) -> Ended:
        """`ended`; the detail of an error also names the call, as it does for hangs and signals."""
        if self.ended.how != "error" or not self.stages or self.stages[-1][1].ok:
            return self.ended
        detail = f"{self.stages[-1][0]}: {self.ended.detail}"
        return msgspec.structs.replace(self.ended, detail=detail)


class Message(msgspec.Struct):
    """One line of a probe; its content is untrusted."""

    enter: str | None = None
    left: str | None = None
    seconds: float = 0.0
    note: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    error: str | None = None
    code: int | None = None


msgspec.json.Decoder(Message)
"""Built before there are threads; see `doctor.collect.children`."""


@dataclass(slots=True)
class Progress:
    """The messages of one request so far."""

    notes: list[dict[str, Any]] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)
    inside: str = ""
    since: float = 0.0

    @property
    def exceeds_limit(self) -> bool:
        return len(self.notes) + len(self.spent) > NOTES

    def add(self, message: Message) -> None:
        if message.enter is not None:
            self.inside, self.since = message.enter, time.monotonic()
            self.spent.setdefault(self.inside, 0.0)
        elif message.left is not None:
            self.spent[message.left] = self.spent.get(message.left, 0.0) + message.seconds
            self.inside = ""
        elif message.note is not None:
            self.notes.append(message.note)

    def close(
        self,
        ended: Ended,
        answer: dict[str, object] | None = None,
        *,
        busy: bool | None = None,
        uninterruptible: bool | None = None,
    ) -> Answer:
        stages = [(name, Ended(how="ok", seconds=spent)) for name, spent in self.spent.items()]
        if self.inside and not ended.ok:
            spent = self.spent[self.inside] + time.monotonic() - self.since
            stages = [pair for pair in stages if pair[0] != self.inside]
            last = Ended(how=ended.how, detail=ended.detail, seconds=spent, code=ended.code)
            stages.append((self.inside, last))
        return Answer(ended, answer, tuple(self.notes), tuple(stages), busy, uninterruptible)


def end_of_request(message: Message, elapsed: float) -> Ended | None:
    """How the request ended if this is its last message."""
    if message.answer is not None:
        return Ended(how="ok", seconds=elapsed)
    if message.error is not None:
        detail, code = message.error[:2000], message.code
        return Ended(how="error", detail=detail, seconds=elapsed, code=code)
    return None


def parsed(line: bytes) -> Message | None:
    """The line as a message; None if it is not one."""
    try:
        content = json.loads(line)
        if b"\\ud" in line.lower():  # facts files cannot hold a lone surrogate
            text = json.dumps(content, ensure_ascii=False)
            content = json.loads(text.encode("utf-8", "replace"))
        return msgspec.convert(content, Message)
    except (ValueError, RecursionError):
        return None


def signal_name(number: int) -> str:
    names = {member.value: member.name for member in signal.Signals}
    return names.get(number, f"signal {number}")


def with_stage(ended: Ended, inside: str, elapsed: float) -> Ended:
    where = f" inside {inside}" if inside else ""
    detail = ended.detail
    if ended.how == "timeout":
        detail = f"no answer in {round(elapsed, 1):g} s{where}"
    elif ended.how in ("signal", "budget"):
        detail = f"{ended.detail}{where}"
    return Ended(how=ended.how, detail=detail, seconds=elapsed, code=ended.code)
