"""Anchors whose form their encoding states, and overlaps that take two corners."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import formulas_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

ENCODED = re.compile(r"\(\w+\[(?:<>|:),:2\]-(?P<a>\w+)\[(?:<>|:),:2\]\)/(?P=a)\[(?:<>|:),2:\]")
OVERLAPS = ("box_iou", "generalized_box_iou", "complete_box_iou", "distance_box_iou", "nms")


def of_anchors(reading: Training) -> Iterator[Match]:
    """(gt - anchors[:, :2]) / anchors[:, 2:], and box_iou(anchors, boxes) of the same anchors."""
    calls = [c for c in reading.named(*OVERLAPS) if c.name.startswith("torchvision.ops")]
    for scope, function in enumerate(reading.script.functions) if calls else ():
        stated = {m["a"] for text, _ in formulas_in(reading, scope) if (m := ENCODED.search(text))}
        for name in stated & {p.name for p in function.parameters}:
            for site, use in reading.numbered(objects.sites(reading, scope)):
                value = evaluate.argument_of(reading, use, scope, name)
                root = value.name or (value.items[0].name if value.items else "") if value else ""
                for call in calls:
                    same = call.scope == use.scope and root in [v.name for v in call.args[:2]]
                    if same and evaluate.definitions(
                        reading, root, call.scope, reading.number(call), call.arms
                    ) == evaluate.definitions(reading, root, use.scope, site, use.arms):
                        message = f"{root} are centres and sizes: {call.method} takes two corners"
                        fix = f'box_convert({root}, "cxcywh", "xyxy")'
                        yield Match(call.span, message, fix=fix)
