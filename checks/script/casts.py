"""The dtypes of loads and casts of what trains."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.evaluate import UNDECIDED
from doctor.checks.script.training import Trained, Training
from doctor.facts.script import Call, Value

HALVES = {"bf16", "fp16"}
CASTS = ("half", "bfloat16", "to", "type")
CAST_TO = {"half": "fp16", "bfloat16": "bf16", "float": "fp32"}


def cast_dtype(reading: Training, call: Call) -> set[str]:
    """The dtypes a cast may give; () for a call that casts nothing."""
    if call.method in CAST_TO:
        return {CAST_TO[call.method]} if not call.args else set()
    if call.method not in ("to", "type"):
        return set()
    values = [*call.args, *(v for k, v in call.keywords.items() if k == "dtype")]
    return {each for value in values for each in _dtypes_of(reading, value, call)}


def _dtypes_of(reading: Training, value: Value, call: Call) -> Iterator[str]:
    """The dtypes of an argument of to(), which may also be a device."""
    for option in evaluate.options(reading, value, call):
        dtype = evaluate.dtype(reading, option)
        if dtype != UNDECIDED and option.kind != "literal":
            yield dtype
        elif "dtype" in value.name or "precision" in value.name:
            yield UNDECIDED


def casts_of(reading: Training, trained: Trained) -> list[int]:
    on = reading.on_object(trained.lineage, *CASTS)
    inside = [n for n in trained.lineage.calls if reading.calls[n].method in CASTS]
    return sorted(n for n in {*on, *inside} if reading.compatible(n, trained.sink))


def load_dtypes(reading: Training, call: Call) -> set[str]:
    value = evaluate.argument(reading, call, "torch_dtype") or evaluate.argument(
        reading, call, "dtype"
    )
    return evaluate.dtypes(reading, value, call) if value is not None else set()


def loads_of(reading: Training, trained: Trained) -> Iterator[int]:
    """from_pretrained calls that made the trained object."""
    for number in trained.lineage.calls:
        if number in reading.loads and not reading.quantized(reading.calls[number]):
            yield number
