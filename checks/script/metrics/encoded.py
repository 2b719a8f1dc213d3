"""Categories that are encoded by the target of rows that are held out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import words
from doctor.checks.script.rendering import formulas, lines, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

GROUPED = re.compile(
    r"groupby\(.*\)(?:\['?(?P<item>\w+)'?\]|\.(?P<attribute>\w+))"
    r"\.(?P<how>transform|agg|mean|apply)\((?P<what>[^()]*)"
)
COUNTS = ("count", "size", "nunique", "cumcount", "len")
"""What says nothing of the values of the target."""
TARGETS = {"target", "label", "y"}


def encoded_by_target(reading: Training) -> Iterator[Match]:
    """groupby(...)[target].transform("mean") before the split, also by map() of the means."""
    splits = reading.named("train_test_split", "KFold", "StratifiedKFold", "random_split")
    for line in reading.cached(lines) if splits else ():
        found = GROUPED.search(line.text)
        if found is None or any(count in found["what"] for count in COUNTS):
            continue
        if not any(reading.number(call) >= line.position for call in splits):
            continue
        column = found["item"] or found["attribute"]
        feature = found["how"] == "transform" or "]" in line.target or ".map(" in line.text
        if (feature or _is_mapped(reading, line.target)) and _is_target(reading, column):
            yield Match(line.span, f"{column} of all rows, also of those held out, is in a feature")


def _is_mapped(reading: Training, name: str) -> bool:
    """means of df[column].map(means) and df.merge(means)."""
    given = [v for call in reading.named("map", "merge", "join", "replace") for v in call.args[:1]]
    return any(value.name == name or name in render(reading, value).split(".") for value in given)


def _is_target(reading: Training, column: str) -> bool:
    """The column by its name, or that is what a model is to predict."""
    if set(words(column)) & TARGETS:
        return True
    quoted = rf"(?:'{column}'|(?<![\w.']){column}(?!\w))"
    used = re.compile(
        rf"\.drop\(.*columns=\(?{quoted}|\.pop\({quoted}\)|^\w*train\w*\.{column}\b"
        rf"|stratify=\w+(?:\[{quoted}\]|\.{column}\b)"
    )
    if any(used.search(text) for text, _, _ in reading.cached(formulas)):
        return True
    whole = re.compile(
        rf"\w+(?:\[{quoted}\]|\.{column})(?:\.(?:values|to_numpy\(.*\)|astype\(.*\)))*"
    )
    return any(
        line.target in ("y", "labels", "targets") and whole.fullmatch(line.text)
        for line in reading.cached(lines)
    )
