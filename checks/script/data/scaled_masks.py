"""ToTensor() on a mask of classes, which divides their numbers by 255."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import render, statements
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

COUNTS = {"num_classes", "n_classes", "classes", "num_labels"}
COUNTED = re.compile(r"(?:\w+\.)?(?:num|n)_?class(?:es)?", re.IGNORECASE)
INTEGER = r"(?:\.squeeze\([-\d]*\)|\[0\])*\.(?:long\(\)|to\((?:dtype=)?torch\.(?:int64|long)\))"


def scaled(reading: Training, call: Call, masks: set[str]) -> Iterator[Match]:
    """Classes 1 and 2 become 0.004 and 0.008, and 0 as long."""
    value = call.args[0] if len(call.args) == 1 else None
    name = (value.name if value.kind == "name" else call.target) if value is not None else ""
    if not set(words(name)) & masks:
        return
    plain = call.method in ("to_tensor", "ToTensor")
    if "input" in words(name) or not (plain or _is_pipeline(reading, call)):
        return
    counts = reading.cached(class_counts)
    known = counts <= {2, 1} if plain else not any(n > 2 for n in counts)
    if (known and (counts or not plain)) or not reading.mentions("cross_entropy", "crossentropy"):
        return  # masks of two classes may hold 0 and 255
    if _is_made_integer(reading, call):
        yield Match(call.span, f"to_tensor divides {name} by 255: all classes become 0")


def _is_pipeline(reading: Training, call: Call) -> bool:
    """mask_tf(mask), where mask_tf = Compose([Resize(...), ToTensor()]) of torchvision."""
    made = objects.callee(reading, call)
    compose = made[0] if len(made) == 1 else None
    if compose is None or compose.method != "Compose" or len(compose.args) != 1:
        return False
    listed = compose.args[0]
    steps = [reading.calls[v.call].name for v in listed.items if v.kind == "call"]
    return (
        listed.kind == "list"
        and len(steps) == len(listed.items)
        and all(s.startswith("torchvision.transforms.") and "Lambda" not in s for s in steps)
        and steps[-1].endswith(".ToTensor")
    )


def _is_made_integer(reading: Training, call: Call) -> bool:
    """The result becomes integers as it is: nothing multiplies it or compares it before."""
    number = reading.number(call)
    own = [text for text, _, scope in reading.cached(statements) if scope == call.scope]
    if any("255" in text or "unique(" in text for text in own):
        return False
    whole = re.escape(render(reading, Value("call", call=number)))
    if any(re.search(whole + INTEGER, text) for text in own):
        return True
    target = call.target
    after = [a for a in reading.assigned_to(target, call.scope)
             if a.span.order > call.span.order]  # fmt: skip
    changed = f"{target}[]" in reading.script.identifiers or any(
        not re.fullmatch(rf"{re.escape(target)}{INTEGER}", render(reading, a.value)) for a in after
    )
    used = re.compile(rf"(?<![\w.]){re.escape(target)}{INTEGER}")
    return bool(target) and not changed and any(used.search(text) for text in own)


def class_counts(reading: Training) -> set[int]:
    """How many classes there are, as the file says it."""
    found: set[object] = set()
    for call in reading.calls:
        for key in COUNTS & call.keywords.keys():
            found |= evaluate.literals(reading, call.keywords[key], call)
    found |= {a.value.literal for a in reading.assignments if COUNTED.fullmatch(a.target)}
    return {n for n in found if isinstance(n, int) and not isinstance(n, bool)}
