"""The length of a run, from the trainer_state.json beside its weights."""

from __future__ import annotations

import re
from statistics import median
from typing import Any, NoReturn

import msgspec

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import json_object
from doctor.checkpoint.records import History

LIMIT = 64 << 20
"""Bytes of trainer_state.json that are read."""

SHORT = 1 << 20
"""Bytes up to which invalid JSON is parsed again to say what is wrong."""

MOST_LOGGED = 1_000_000
"""Entries of a log that are read."""

_NOT_FINITE = re.compile(rb"([:,\[]\s*)-?(?:NaN|Infinity)\b")

LONGEST_NUMBER = 40
"""Characters of a number."""

WHOLE = 2**53
"""Larger step numbers are no step numbers."""


class _Entry(msgspec.Struct):
    step: msgspec.Raw = msgspec.Raw(b"null")
    learning_rate: msgspec.Raw = msgspec.Raw(b"null")
    grad_norm: msgspec.Raw = msgspec.Raw(b"null")
    loss: msgspec.Raw = msgspec.Raw(b"null")


class _State(msgspec.Struct):
    global_step: msgspec.Raw = msgspec.Raw(b"null")
    logging_steps: msgspec.Raw = msgspec.Raw(b"null")
    log_history: msgspec.Raw = msgspec.Raw(b"[]")


def read_state(data: bytes) -> dict[str, object]:
    """The entries of trainer_state.json about the run; the rest is skipped.

    Raises CheckpointError for what is no such file.
    """
    if b"NaN" in data or b"Infinity" in data:
        data = _NOT_FINITE.sub(rb'\1"nan"', data)  # Python writes them, and JSON has none
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


def _entries(data: bytes) -> list[dict[str, object]]:
    """Steps and learning rates of the log; [] where it is none, or longer than any run's."""
    if data.count(b"{") > MOST_LOGGED:
        return []
    try:
        logged = msgspec.json.decode(data, type=list[_Entry])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [
        {
            "step": _scalar(entry.step),
            "learning_rate": _scalar(entry.learning_rate),
            "loss": _scalar(entry.loss),
            "nan": b'"nan"' in (bytes(entry.grad_norm), bytes(entry.loss)),
        }
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


def read_history(state: dict[str, object]) -> History | None:
    """The learning rates that were logged; None where no steps are recorded.

    A logged rate applies to the steps since the log before it, and for no more of them than the
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
    return History(
        steps=steps,
        lr_sum=total,
        lr_squares=squares,
        covered=covered,
        lr_max=largest,
        falling_from=_falling_from(logged, largest),
        losses=_losses(state.get("log_history")),
        nan_at_end=_nan_at_end(state.get("log_history")),
    )


def _falling_from(logged: list[tuple[int, float]], largest: float) -> int:
    top = max((place for place, (_, rate) in enumerate(logged) if rate == largest), default=0)
    pairs = list(zip(logged[top:], logged[top + 1 :], strict=False))
    if any(later[1] > before[1] for before, later in pairs):
        return 0
    return max((before[0] for before, later in pairs if later[1] < before[1]), default=0)


FEWEST_LOSSES = 10


def _losses(history: object) -> tuple[float, float, float] | None:
    entries = history if isinstance(history, list) else []
    losses = [each.get("loss") for each in entries if isinstance(each, dict)]
    finite = [float(loss) for loss in losses if isinstance(loss, int | float)]
    if len(finite) < FEWEST_LOSSES:
        return None
    return finite[0], min(finite), median(finite[-3:])


def _nan_at_end(history: object) -> int:
    """How many of the last entries with a rate have a loss or a gradient norm that is no number."""
    count = 0
    for entry in reversed(history if isinstance(history, list) else []):
        if isinstance(entry, dict) and entry.get("learning_rate") is not None:
            if not entry.get("nan"):
                break
            count += 1
    return count


def _interval(state: dict[str, object], logged: list[tuple[int, float]]) -> int:
    """Steps per log entry: logging_steps, else the gap between the first two."""
    logging_steps = _whole(state.get("logging_steps"))
    if logging_steps:
        return logging_steps
    return logged[1][0] - logged[0][0] if len(logged) > 1 else 1


def _logged(history: object) -> list[tuple[int, float]]:
    """(step, learning rate) in rising order of steps; entries of other kinds are passed over."""
    rates: list[tuple[int, float]] = []
    for entry in history if isinstance(history, list) else ():
        if not isinstance(entry, dict):
            continue
        step, rate = _whole(entry.get("step")), _rate(entry.get("learning_rate"))
        if step and rate is not None and not (rates and step <= rates[-1][0]):
            rates.append((step, rate))
    return rates


def _rate(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < 1e6 else None


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < WHOLE else None
