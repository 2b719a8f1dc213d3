"""Overlaps of logits where probabilities are meant, and of boxes whose sides have no floor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.outcomes import outcomes
from doctor.checks.script.rendering import (
    Line,
    lines,
    lines_in,
    lines_of,
    render,
    texts_in,
    written_out,
)
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

OVERLAPS = re.compile(r"dice|jaccard|tversky|iou", re.IGNORECASE)
INTERSECTION = re.compile(r"(?:^|_)(?:inter|intersect|intersection|overlap)s?(?:_|$|[A-Z])")


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


SIDES = re.compile(
    r"\((?:torch\.|numpy\.)?min(?:imum)?\((?:(?!clamp|clip|relu).)*\)"
    r"-(?:torch\.|numpy\.)?max(?:imum)?\("
)
"""The smaller end less the larger beginning."""
BEGINNING = re.compile(r"\)-(?:torch\.|numpy\.)?max(?:imum)?\(")
FLOORS = re.compile(r"(?:max(?:imum)?|softplus|sign|abs)\((?!.*-)")
"""What the product of the sides applies to one of them, whose name it has."""
CLAMPS = re.compile(r"clamp|clip|relu|where|threshold|max(?:imum)?\((?:[\w.]*\()?0\b|,0(?:\.0*)?\)")


def unclamped(reading: Training) -> Iterator[Match]:
    """inter = (rb - lt).prod(-1): boxes that are apart in both directions have two negative sides,
    and a positive intersection."""
    for line in reading.cached(lines) if reading.mentions("iou", "inter", "overlap") else ():
        if not INTERSECTION.search(line.target) or not re.search(r"\*|prod\(", line.text):
            continue
        if FLOORS.search(line.text):
            continue
        text = written_out(reading, line.scope, line.text)
        both = "prod(" in text or len(BEGINNING.findall(text)) > 1
        sides = both and SIDES.search(text) and not CLAMPS.search(text)
        once = len(lines_of(reading, line.scope, line.target)) == 1 and not line.augmented
        if not sides or not once:
            continue
        if not _limited(reading, line):
            yield Match(line.span, "boxes that are apart intersect: two negative sides make a "
                        "positive area", fix="(rb - lt).clamp(min=0).prod(-1)")  # fmt: skip


def _limited(reading: Training, line: Line) -> bool:
    """The same function compares something, or clamps the sides or their product elsewhere."""
    if any(c.scope == line.scope for c in reading.comparisons):
        return True
    names = "|".join({*re.findall(r"[a-z]\w*", line.text), line.target})
    later = re.compile(
        rf"(?:clamp|relu|clip)\w*\((?:{names})\b|\b(?:{names})(?:\[[^]]*\])?\.(?:clamp|relu|clip)"
    )
    in_place = any(c.method in ("clamp_", "clip_", "relu_") for c in reading.calls_in(line.scope))
    return in_place or any(later.search(text) for text in texts_in(reading, line.scope))


def _compared(reading: Training) -> dict[int, list[str]]:
    """What comparisons of each function have on their left."""
    table: dict[int, list[str]] = {}
    for each in reading.comparisons:
        table.setdefault(each.scope, []).append(render(reading, each.left))
    return table


def _same_values(reading: Training, scope: int, name: str) -> str:
    """A parameter and names of it, also masked or of another shape, as alternatives."""
    names = {name}
    for line in lines_in(reading, scope):
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
