"""Images as arrays: transforms behind the one that makes a tensor, and sizes in OpenCV's order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import expanded
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

TENSORS = ("ToTensorV2", "ToTensor")


def of_arrays(reading: Training) -> Iterator[Match]:
    yield from _behind_tensor(reading)
    yield from _height_first(reading)


def _behind_tensor(reading: Training) -> Iterator[Match]:
    """albumentations.Compose([ToTensorV2(), Normalize()]): the second takes channels last."""
    for call in reading.named("Compose"):
        first = call.first
        if not call.name.startswith("albumentations.") or first is None or first.kind != "list":
            continue
        made = [reading.call_of(each) for each in first.items]
        names = [each.method if each is not None else "" for each in made]
        place = next((n for n, name in enumerate(names) if name in TENSORS), len(names))
        if after := [name for name in names[place + 1 :] if name not in ("", "Lambda", "NoOp")]:
            yield Match(
                call.span,
                f"{names[place]} is last: {after[0]} takes arrays",
                "fail",
                fix=f"Put {names[place]}() last.",
            )


def _height_first(reading: Training) -> Iterator[Match]:
    """cv2.resize(image, (height, width))."""
    for call in reading.named("resize"):
        size = call.given("dsize", 1)
        if (
            call.name != "cv2.resize"
            or size is None
            or [v.kind for v in size.items] != ["name"] * 2
        ):
            continue
        one, other = (set(words(value.name)) for value in size.items)
        turned = call.first is not None and re.search(
            r"\.T\b|transpose|rot", expanded(reading, call.first, call)
        )
        if one & {"h", "height"} and other & {"w", "width"} and not turned:
            height, width = (evaluate.number(reading, value, call) for value in size.items)
            if height is None or width is None or height != width:
                yield Match(
                    call.span,
                    "cv2.resize takes (width, height)",
                    "fail",
                    fix="cv2.resize(image, (width, height))",
                )
