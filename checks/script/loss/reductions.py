"""Which places, axes and dtypes a loss is computed over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import containing, expanded, render, texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

INTEGER = re.compile(
    r"\.(?:long|int)\(\)$|\.to\((?:dtype=)?torch\.(?:long|int64|int32)\)$|"
    r"dtype=torch\.(?:long|int64)\)$"
)
MASKED = re.compile(
    r"\((?P<loss>\w*loss\w*)\*(?P<mask>\w*mask\w*)(?:\.(?:float|to|cuda|view|reshape|"
    r"flatten)\([^()]*\))*\)\.mean\(\)|torch\.mean\(\((?P<two>\w*loss\w*)\*\w*mask\w*\)\)"
)


def of_classes(reading: Training) -> Iterator[Match]:
    """BCE of integers raises."""
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind not in ("bce", "bce_logits") or len(call.args) < 2:
            continue
        if INTEGER.search(expanded(reading, call.args[1], call, 1)):
            yield Match(
                call.span, "targets are integers: this loss takes floats, and raises", "fail"
            )


def over_padding(reading: Training) -> Iterator[Match]:
    """(loss * mask).mean() of losses of tokens divides by all places."""
    for text, span, scope in containing(reading, MASKED):
        found = MASKED.search(text)
        if not found:
            continue
        name = found["loss"] or found["two"]
        held = [a for a in reading.assignments if a.target == name and a.scope == scope]
        tokens = any(
            re.search(r"cross_entropy|nll_loss|criterion|loss_f", t)
            and ("reduction='none'" in t or _is_unreduced(reading, t))
            for t in (render(reading, a.value) for a in held)
        )
        if tokens:
            message = f"the mean of {name} counts masked places: divide its sum by the mask's"
            yield Match(span, message, "warn")


SCALED = re.compile(
    r"\((?P<whole>[^|]*\.(?:sum|mean)\(\)\)*|[^|]*torch\.(?:sum|mean)\([^,]*\)\)*)\*(?P<mask>\w*mask\w*)\)"
)


def of_one_number(reading: Training) -> Iterator[Match]:
    """terms.sum() * mask: the sum of all places is one number, which no mask takes apart."""
    for text, span, scope in containing(reading, SCALED):
        found = SCALED.fullmatch(text)
        if found is None or found["whole"].count("(") != found["whole"].count(")"):
            continue
        whole, mask = found["whole"], re.escape(found["mask"])
        if mask in whole or not re.search(r"loss|kl|nll|mse", text + _targets(reading, span)):
            continue
        own = texts_in(reading, scope)
        places = any(re.search(rf"\b{mask}\.sum\(", t) for t in own)
        element = any(re.search(rf"[\w)]\*{mask}\b", t.replace(text, "")) for t in own)
        if places and element:
            message = f"one number is multiplied by {found['mask']}: padding is summed before"
            yield Match(span, message, fix="Sum along the last axis, and mask the rest.")


def _targets(reading: Training, span: object) -> str:
    return " ".join(a.target for a in reading.assignments if a.span == span)


def _is_unreduced(reading: Training, text: str) -> bool:
    """criterion(...) of CrossEntropyLoss(reduction='none')."""
    name = re.match(r"([\w.]+)\(", text)
    for call in reading.calls if name else ():
        if call.name == (name and name[1]):
            made = objects.callee(reading, call)
            return bool(made) and all(
                m is not None
                and (v := m.keywords.get("reduction")) is not None
                and v.literal == "none"
                for m in made
            )
    return False


def implicit_axis(reading: Training) -> Iterator[Match]:
    """softmax(x) without dim chooses an axis by the number of axes: 0 of one or three."""
    for call in reading.named("softmax", "log_softmax", "Softmax", "LogSoftmax"):
        layer = call.method[:1].isupper()
        given = call.keywords.keys() & {"dim"} or len(call.args) > (0 if layer else 1)
        if call.name.startswith("torch.nn.") and not given and not call.unpacked:
            message = f"{call.method} without dim: of three axes it runs over the first"
            yield Match(call.span, message, "note")
