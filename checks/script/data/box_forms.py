"""Anchors whose form their encoding states, and overlaps that take two corners."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import formulas_in, lines_of
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

ENCODED = re.compile(r"\(\w+\[(?:<>|:),:2\]-(?P<a>\w+)\[(?:<>|:),:2\]\)/(?P=a)\[(?:<>|:),2:\]")
OVERLAPS = ("box_iou", "generalized_box_iou", "complete_box_iou", "distance_box_iou", "nms")


def of_anchors(reading: Training) -> Iterator[Match]:
    """(gt - anchors[:, :2]) / anchors[:, 2:], and box_iou(anchors, boxes) of the same anchors."""
    calls = _overlaps(reading)
    for scope, function in enumerate(reading.script.functions) if calls else ():
        stated = {m["a"] for text, _ in formulas_in(reading, scope) if (m := ENCODED.search(text))}
        given = {p.name for p in function.parameters if not lines_of(reading, scope, p.name)}
        for name in stated & given:
            for site, use in reading.numbered(objects.sites(reading, scope)):
                value = evaluate.argument_of(reading, use, scope, name)
                root = value.name if value is not None and value.kind == "name" else ""
                for call in calls.get((use.scope, root), ()):
                    if evaluate.definitions(
                        reading, root, call.scope, reading.number(call), call.arms
                    ) == evaluate.definitions(reading, root, use.scope, site, use.arms):
                        message = f"{root} are centres and sizes: {call.method} takes two corners"
                        fix = f'box_convert({root}, "cxcywh", "xyxy")'
                        yield Match(call.span, message, fix=fix)


def _overlaps(reading: Training) -> dict[tuple[int, str], list[Call]]:
    """Calls of torchvision that take two corners: by scope and name of what they are given."""
    calls: dict[tuple[int, str], list[Call]] = {}
    for call in reading.named(*OVERLAPS):
        for each in call.args[:2] if call.name.startswith("torchvision.ops") else ():
            if each.kind == "name":
                calls.setdefault((call.scope, each.name), []).append(call)
    return calls
