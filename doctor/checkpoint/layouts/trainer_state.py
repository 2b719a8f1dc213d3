"""How far a run went, from the trainer_state.json beside its weights."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import json_object
from doctor.checkpoint.records import History

LIMIT = 64 << 20
"""Bytes of trainer_state.json that are read."""

SHORT = 1 << 20
"""Bytes of a file that is no such JSON, of which it is said what is wrong."""

MOST_LOGGED = 1_000_000
"""Entries of a log that are read."""

LONGEST_NUMBER = 40
"""Characters of a number."""

WHOLE = 2**53
"""Larger step numbers are no step numbers."""


class _Entry(msgspec.Struct):
    step: msgspec.Raw = msgspec.Raw(b"null")
    learning_rate: msgspec.Raw = msgspec.Raw(b"null")


class _State(msgspec.Struct):
    global_step: msgspec.Raw = msgspec.Raw(b"null")
    logging_steps: msgspec.Raw = msgspec.Raw(b"null")
    log_history: msgspec.Raw = msgspec.Raw(b"[]")


def read_state(data: bytes) -> dict[str, Any]:
    """The entries of trainer_state.json that tell of the run; the rest is passed over unread.

    Raises CheckpointError for what is no such file.
    """
    try:
        state = msgspec.json.decode(data, type=_State)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return json_object(data[:SHORT]) if len(data) <= SHORT else _refused()
    return {
        "global_step": _scalar(state.global_step),
        "logging_steps": _scalar(state.logging_steps),
        "log_history": _entries(bytes(state.log_history)),
    }


def _refused() -> NoReturn:
    raise CheckpointError("damaged", "is not valid JSON")


def _entries(data: bytes) -> list[dict[str, Any]]:
    """Steps and learning rates of the log; [] where it is none, or longer than any run's."""
    if data.count(b"{") > MOST_LOGGED:
        return []
    try:
        logged = msgspec.json.decode(data, type=list[_Entry])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [
        {"step": _scalar(entry.step), "learning_rate": _scalar(entry.learning_rate)}
        for entry in logged
    ]


def _scalar(raw: msgspec.Raw) -> Any:
    """A number; None for anything else."""
    text = bytes(raw)
    if len(text) > LONGEST_NUMBER:
        return None
    try:
        return msgspec.json.decode(text, type=int | float)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def read_history(state: dict[str, Any]) -> History | None:
    """The learning rates that were logged; None where there are no steps to tell of.

    A logged rate stands for the steps since the log before it, and for no more of them than the
    trainer's own logging interval, since a log may have been cut.
    """
    logged = _logged(state.get("log_history"))
    steps = _whole(state.get("global_step"))
    if steps is None:
        if not logged:
            return None
        steps = logged[-1][0]
    interval = _interval(state, logged)
    total = squares = 0.0
    covered = before = 0
    for step, rate in logged:
        span = min(step - before, interval)
        total, squares = total + span * rate, squares + span * rate * rate
        covered, before = covered + span, step
    largest = max((rate for _, rate in logged), default=0.0)
    return History(steps=steps, lr_sum=total, lr_squares=squares, covered=covered, lr_max=largest)


def _interval(state: dict[str, Any], logged: list[tuple[int, float]]) -> int:
    """Steps that one log stands for: as the trainer says, else the gap between the first two."""
    said = _whole(state.get("logging_steps"))
    if said:
        return said
    return logged[1][0] - logged[0][0] if len(logged) > 1 else 1


def _logged(history: Any) -> list[tuple[int, float]]:
    """(step, learning rate) in rising order of steps; entries of other kinds are passed over."""
    found: list[tuple[int, float]] = []
    for entry in history if isinstance(history, list) else ():
        if not isinstance(entry, dict):
            continue
        step, rate = _whole(entry.get("step")), _rate(entry.get("learning_rate"))
        if step and rate is not None and not (found and step <= found[-1][0]):
            found.append((step, rate))
    return found


def _rate(found: Any) -> float | None:
    number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if number and 0 <= found < 1e6 else None


def _whole(found: Any) -> int | None:
    return found if type(found) is int and 0 <= found < WHOLE else None
