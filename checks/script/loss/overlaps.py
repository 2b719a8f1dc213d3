"""Overlaps that are computed of logits, where probabilities are meant."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.outcomes import outcomes
from doctor.checks.script.rendering import Line, lines, render, texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

OVERLAPS = re.compile(r"dice|jaccard|tversky|iou", re.IGNORECASE)


def of_logits(reading: Training) -> Iterator[Match]:
    """dice(net(x), mask), where neither applies a sigmoid."""
    for number, function in enumerate(reading.script.functions):
        named = f"{function.owner} {function.name}"
        inputs = [p.name for p in function.parameters if p.name != "self"]
        if not OVERLAPS.search(named) or len(inputs) < 2 or "metric" in named.casefold():
            continue
        own = texts_in(reading, number)
        names = _same_values(reading, number, inputs[0])
        shares = re.compile(
            r"sigmoid|softmax|argmax|(?<!<)>|round|logits?_to|activation|act\(|exp\(|"
            rf"one_hot\([^()]*\b(?:{names})\b"
        )
        lefts = reading.cached(_compared).get(number, ())
        compared = any(re.search(rf"\b(?:{names})\b", left) for left in lefts)
        others = _same_values(reading, number, inputs[1])
        multiplied = any(re.search(rf"\((?:{names})\*(?:{others})\)", t) for t in own)
        if not multiplied or compared or any(shares.search(t) for t in own):
            continue
        for site, call in reading.numbered(objects.sites(reading, number)):
            value = call.given(inputs[0], 0)
            if value is None or call.unpacked or reading.is_evaluation(call):
                continue
            found = outcomes(reading, value, call.scope, site, call.arms)
            if (found and found <= {"logits", "logit"}) or _are_logits(reading, value, call):
                yield Match(call.span, "an overlap is computed of logits: a sigmoid is missing")
                break


def _compared(reading: Training) -> dict[int, list[str]]:
    """What comparisons of each function have on their left."""
    table: dict[int, list[str]] = {}
    for each in reading.comparisons:
        table.setdefault(each.scope, []).append(render(reading, each.left))
    return table


def _lines_by_scope(reading: Training) -> dict[int, list[Line]]:
    table: dict[int, list[Line]] = {}
    for line in reading.cached(lines):
        table.setdefault(line.scope, []).append(line)
    return table


def _same_values(reading: Training, scope: int, name: str) -> str:
    """A parameter and names of it, also masked or of another shape, as alternatives."""
    names = {name}
    for line in reading.cached(_lines_by_scope).get(scope, ()):
        kept = re.fullmatch(
            r"\(?(\w+)(?:\.(?:view|reshape|flatten|contiguous)\(.*\)|\*\w+\))?", line.text
        )
        if kept and kept[1] in names:
            names.add(line.target)
    return "|".join(map(re.escape, sorted(names)))


def _are_logits(reading: Training, value: Value, call: Call) -> bool:
    """The same name is passed to a loss that takes logits, by the same function."""
    for number, kind in loss_calls(reading) if value.kind == "name" else ():
        other = reading.calls[number]
        same = other.scope == call.scope and other.loops == call.loops and other.first is not None
        if same and kind in ("cross_entropy", "bce_logits") and other.first == value:
            return evaluate.definitions_at(reading, value.name, other) == (
                evaluate.definitions_at(reading, value.name, call)
            )
    return False
