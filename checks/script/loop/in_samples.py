"""Schedules that are as long as the samples, where a step takes a batch of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loop.schedule_lengths import LENGTHS
from doctor.checks.script.rendering import render, written_out
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

SIZE = re.compile(r"len\(([\w.]+)\)")


def in_samples(reading: Training) -> Iterator[Match]:
    """OneCycleLR(..., steps_per_epoch=len(dataset)), with DataLoader(dataset, batch_size=64)."""
    datasets = _in_batches(reading)
    for made in reading.named(*LENGTHS) if datasets else ():
        value = _length(reading, made)
        text = written_out(reading, made.scope, render(reading, value)) if value else ""
        counted = set(SIZE.findall(text)) & datasets
        if counted and "/" not in text:
            message = f"len({min(counted)}) counts samples, and a step takes a batch of them"
            yield Match(made.span, message, fix="Count the batches: len(loader).")


def _in_batches(reading: Training) -> set[str]:
    """Names of datasets that all loaders of the file take in batches of more than one."""
    several: dict[str, list[bool]] = {}
    for call in reading.named("DataLoader"):
        dataset = call.given("dataset", 0)
        size = call.given("batch_size", 1)
        if dataset is not None and dataset.kind == "name" and not call.unpacked:
            single = size is None or (size.literal in (1, None) and size.kind == "literal")
            several.setdefault(dataset.name, []).append(not single)
    return {name for name, sizes in several.items() if all(sizes)}


def _length(reading: Training, made: Call) -> Value | None:
    name, position = LENGTHS[made.method]
    return made.keywords.get("steps_per_epoch") or evaluate.argument(reading, made, name, position)
