"""The functions that Trainers call with the results of an evaluation."""

from __future__ import annotations

from doctor.checks.script import evaluate, objects
from doctor.checks.script.training import Training


def metric_functions(reading: Training) -> list[int]:
    """Functions of the file that Trainers get as compute_metrics, also of objects and closures."""
    found: list[int] = []
    for n, call in reading.numbered(reading.trainers):
        value = call.keywords.get("compute_metrics")
        for each in evaluate.options(reading, value, call) or ([value] if value else []):
            made = reading.called(each)
            own = objects.method_of(reading, made, "__call__") if made else None
            found += objects.functions_of(reading, each, call) if own is None else [own]
            owner, _, method = each.name.rpartition(".")
            named = reading.functions_by_name.get(method, ()) if owner else ()
            methods = [n for n in named if reading.function(n).owner]
            found += methods if len(methods) == 1 else []
    return sorted(set(found))
