"""Bytes of an image that are normalized as if they were between 0 and 1."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

BYTES = re.compile(r"cv2\.imread\(|Image\.open\(|read_image\(|decode_image\(")
KEPT = {
    "from_numpy", "as_tensor", "tensor", "array", "asarray", "ascontiguousarray", "imread", "open",
    "cvtColor", "resize", "convert", "read_image", "transpose", "permute", "contiguous", "copy",
    "float", "astype", "to",
}  # fmt: skip
"""Methods and functions that leave the values as they are."""


def never_divided(reading: Training) -> Iterator[Match]:
    """normalize(torch.from_numpy(cv2.imread(path)).permute(2, 0, 1).float())."""
    for call in reading.calls if "Normalize" in reading.by_method else ():
        made = objects.known_callees(reading, call) if len(call.args) == 1 else []
        if len(made) != 1 or made[0].name != "torchvision.transforms.Normalize":
            continue
        mean = made[0].given("mean", 0)
        numbers = [v.literal for v in mean.items] if mean is not None else []
        fractions = numbers and all(isinstance(n, float) and 0 < n < 1 for n in numbers)
        if fractions and call.args[0].kind == "name" and _holds_bytes(reading, call):
            message = "pixels are 0 to 255, and Normalize() has statistics of 0 to 1"
            yield Match(call.span, message, "fail", fix="Divide by 255 before.")


def _holds_bytes(reading: Training, call: Call) -> bool:
    """The image is read and made float, and each step between keeps its values."""
    name, number = call.args[0].name, reading.number(call)
    steps = [a for a in reading.assigned_to(name, call.scope)
             if a.scope == call.scope and a.position <= number]  # fmt: skip
    texts = [render(reading, a.value) for a in steps]
    if not texts or not BYTES.search(texts[0]) or "float" not in texts[-1]:
        return False
    divided = any("/" in re.sub(r"'[^']*'", "", text) for text in texts)
    if divided or any(a.augmented or a.arms for a in steps):
        return False
    changed = any(
        c.receiver == name and c.method.endswith("_") for c in reading.calls_in(call.scope)
    )
    return not changed and all(c.method in KEPT for a in steps for c in reading.inside(a.value))
