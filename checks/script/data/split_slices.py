"""Parts of one split that load_dataset() is asked for, and that overlap."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import is_held_out, is_training
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Value

PART = re.compile(r"(?P<split>\w+)\[(?P<start>\d*)(?P<from>%?):(?P<end>\d*)(?P<to>%?)\]")


def overlapping_slices(reading: Training) -> Iterator[Match]:
    """train = load_dataset(x, split="train[:90%]"), val = load_dataset(x, split="train[80%:]")."""
    trained: dict[tuple[object, ...], tuple[str, int, str]] = {}
    for call in reading.named("load_dataset"):
        part = _part(call.keywords.get("split"))
        if part is None or len(call.targets) != 1:
            continue
        name = call.targets[0]
        given = [*call.args, *(v for k, v in sorted(call.keywords.items()) if k != "split")]
        source = (part["split"], *(value.literal for value in given))
        if is_training(name) and part["end"] and not part["start"]:
            trained[source] = (name, int(part["end"]), part["to"])
        other, end, unit = trained.get(source, ("", 0, ""))
        begins = part["start"] and part["from"] == unit and int(part["start"]) < end
        if is_held_out(name) and begins:
            yield Match(call.span, f"{name} begins within {other}, which ends at {end}")


def _part(value: Value | None) -> re.Match[str] | None:
    text = value.literal if value is not None else None
    return PART.fullmatch(text) if isinstance(text, str) else None
