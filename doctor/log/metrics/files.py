"""Files that hold nothing but metrics: trainer_state.json, JSON lines, CSV, TensorBoard events."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from typing import Any

from doctor.log.blocks import Stream, blocks
from doctor.log.metrics import tensorboard
from doctor.log.metrics.curves import ALIASES, HELD_OUT, STEPS, Curves, plain
from doctor.log.metrics.scores import curve_of
from doctor.log.metrics.text import EVALUATION

TRAINER_STATE = 64 << 20
"""Bytes of a trainer_state.json that are read."""
LONGEST = 1 << 20
"""Bytes of a row."""
KINDS = ("mode", "phase", "split", "stage", "type")
"""Columns that say whether a row is of an evaluation: {"mode": "val", "loss": 0.3}."""


def file_kind(path: str, head: bytes) -> str:
    """trainer-state, json-lines, csv, tensorboard or text, by the content rather than the name."""
    name = path.rpartition("/")[2]
    if "tfevents" in name or tensorboard.is_events(head):
        return "tensorboard"
    start = head.lstrip()
    if start.startswith(b"{") and (b'"log_history"' in head or name == "trainer_state.json"):
        return "trainer-state"
    first = start.split(b"\n", 1)[0]
    if first.startswith(b"{") and first.rstrip().endswith(b"}"):
        named = set(_metrics(_object(first)))
        if named - {"learning_rate"}:  # alone it is one of the settings that a log begins with
            return "json-lines"
    return "csv" if _is_header(first) else "text"


def _is_header(first: bytes) -> bool:
    columns = [cell.strip().strip(b'"').decode("utf-8", "replace") for cell in first.split(b",")]
    known = [cell for cell in columns if plain(cell) in ALIASES]
    return len(columns) > 1 and bool(known) and all(len(cell) < 80 for cell in columns)


def read_metric_file(kind: str, stream: Stream, curves: Curves) -> None:
    """Add the rows of a file to the curves. Raises ValueError for one that is damaged."""
    if kind == "tensorboard":
        tensorboard.read_events(stream, curves)
    elif kind == "trainer-state":
        _trainer_state(stream, curves)
    elif kind == "json-lines":
        _json_lines(stream, curves)
    else:
        _csv(stream, curves)


def _trainer_state(stream: Stream, curves: Curves) -> None:
    """log_history: rows of the training, of evaluations, and a last one about the whole run."""
    data = b"".join(iter(lambda: stream.read(1 << 20), b""))
    if len(data) > TRAINER_STATE:
        raise ValueError(f"exceeds the {TRAINER_STATE >> 20} MiB limit of a trainer_state.json")
    state = _object(data)
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise ValueError("has no log_history")
    for row in history:
        _add(row, curves, 0)


def _json_lines(stream: Stream, curves: Curves) -> None:
    for number, line in _lines(stream, curves):
        if curves.wants(nonfinite=b"NaN" in line or b"nan" in line or b"nfinity" in line):
            _add(_object(line), curves, number)


def _csv(stream: Stream, curves: Curves) -> None:
    header: list[str] = []
    for number, line in _lines(stream, curves):
        cells = next(csv.reader(io.StringIO(line.decode("utf-8", "replace"))), [])
        if not header:
            header = [cell.strip() for cell in cells]
        elif curves.wants(nonfinite=b"nan" in line.lower() or b"inf" in line.lower()):
            _add(dict(zip(header, cells, strict=False)), curves, number)


def _lines(stream: Stream, curves: Curves) -> Iterator[tuple[int, bytes]]:
    number = 0
    for block in blocks(stream):
        for line in block.splitlines():
            number += 1
            curves.rows_of_file = number
            if line.strip():
                yield number, line[:LONGEST]


def _object(data: bytes) -> object:
    """The JSON value, which may contain a bare NaN; None where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _metrics(row: object) -> dict[str, float]:
    """Curve -> number, of a row."""
    if not isinstance(row, dict) or "train_runtime" in row:
        return {}
    metrics: dict[str, float] = {}
    for name, value in row.items():
        curve, number = curve_of(str(name)), _number(value)
        if curve and number is not None:
            metrics.setdefault(curve, number)
    if str(next((row[key] for key in KINDS if key in row), "")).lower() in EVALUATION:
        evaluated = metrics.pop("loss", None)
        return metrics if evaluated is None else {HELD_OUT: evaluated, **metrics}
    return metrics


def _add(row: Any, curves: Curves, line: int) -> None:
    metrics = _metrics(row)
    if not metrics:
        return
    by_name = {plain(str(name)): value for name, value in row.items()}
    if (epoch := _number(by_name.get("epoch"))) is not None and math.isfinite(epoch):
        curves.count(int(epoch), line)
    step = next((n for name in STEPS if (n := _whole(by_name.get(name))) is not None), None)
    curves.append(step, metrics, line)


def _number(value: object) -> float | None:
    """Numbers, and numbers as text: old trainers write grad_norm so."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and (len(value) > 40 or not value.strip()):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _whole(value: object) -> int | None:
    number = _number(value)
    if number is None or not math.isfinite(number) or number != int(number):
        return None
    return int(number)
