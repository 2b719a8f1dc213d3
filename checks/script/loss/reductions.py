"""Which places, axes and dtypes a loss is computed over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import containing, expanded, lines_of, render, texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

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


def over_ignored(reading: Training) -> Iterator[Match]:
    """cross_entropy(x, y, reduction='none').mean(), of which places with label -100 are zeros."""
    sides = [side for c in reading.comparisons for side in (c.left, c.right)]
    if any(side.literal == -100 or IGNORED.search(side.name) for side in sides):
        return  # what counts is looked at elsewhere, and may be a factor
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind not in ("cross_entropy", "nll"):
            continue
        made = [call, *objects.known_callees(reading, call)]
        given = {key: each.keywords[key] for each in made for key in each.keywords}
        reduction, index = given.get("reduction"), given.get("ignore_index")
        if reduction is None or reduction.literal != "none":
            continue
        left = index is not None and (index.literal == -100 or IGNORED.search(index.name))
        if not left:
            continue
        for mean in reading.named("mean"):
            whole = mean.scope == call.scope and not mean.values and mean.base is None
            own = mean.receiver_call == number or _is_of_all(reading, mean, call)
            if whole and own and _is_the_loss(reading, mean):
                message = "the mean counts places whose label is ignored: their losses are 0"
                fix = "Divide the sum by the number of labels that count, or use reduction='mean'."
                yield Match(mean.span, message, "warn", fix=fix)


def _is_of_all(reading: Training, mean: Call, call: Call) -> bool:
    """losses.mean() of losses that are set once, and that nothing else reads or writes."""
    name = mean.receiver
    if name not in call.targets[:1] or len(lines_of(reading, call.scope, name)) != 1:
        return False
    word = re.compile(rf"(?<![\w.]){re.escape(name)}\b")
    read = [text for text in texts_in(reading, call.scope) if word.search(text)]
    parts = any(a.target.partition("[")[0] == name for a in reading.script.parts)
    others = any(c is not mean and c.receiver.partition("[")[0] == name for c in reading.calls)
    return not parts and not others and all(text == f"{name}.mean()" for text in read)


def _is_the_loss(reading: Training, mean: Call) -> bool:
    """loss = losses.mean() or `return losses.mean()`, and no factor for it behind."""
    number = reading.number(mean)
    given = [a for a in reading.assignments if a.value.call == number]
    if any(a.augmented or len(lines_of(reading, a.scope, a.target)) != 1 for a in given):
        return False
    back = any(v.call == number for v in reading.function(mean.scope).returns)
    names = "|".join(re.escape(a.target) for a in given)
    scaled = re.compile(rf"(?<![\w.])(?:{names})[*/]|\*(?:{names})\b")
    texts = texts_in(reading, mean.scope)
    return back or (bool(given) and not any(map(scaled.search, texts)))


IGNORED = re.compile(r"pad|ignore_?(?:index|id|label)?$|label_pad", re.IGNORECASE)


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
