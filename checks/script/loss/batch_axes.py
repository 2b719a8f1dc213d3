"""Reductions over the batch, and joins along another axis, of values whose layer says the axes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.loss.layer_before import has_batch_first, last_axis_is, layer_before
from doctor.checks.script.naming import is_held_out, is_loader
from doctor.checks.script.outcomes import outcomes
from doctor.checks.script.rendering import expanded, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

POOLS = ("mean", "amax", "sum")
CONVOLUTIONS = {"Conv1d", "Conv2d", "Conv3d", "MaxPool1d", "MaxPool2d", "AvgPool2d"}


def over_batch(reading: Training) -> Iterator[Match]:
    yield from _gathered(reading)
    yield from _pooled(reading)
    yield from _picked_over_time(reading)
    yield from _joined(reading)


INSERTED = re.compile(r".*(?:\.unsqueeze\((?:dim=)?-?1\)|\.(?:view|reshape)\(-1,1\)|\[:,None\])")
"""A column: one number for each sample."""
OF_NETWORK = re.compile(
    r"^(?:\w+\.)*(?:\w+_)?(?:q|qs|q_values?|q_net|qnet|policy|model|net|network|online|critic|logits|"
    r"log_probs?|logps?|probs?)(?:_\w+|\d)?(?:\(|$)|softmax\(",
    re.IGNORECASE,
)


def _gathered(reading: Training) -> Iterator[Match]:
    """q(states).gather(0, actions.unsqueeze(1)): the number of an action is no row."""
    for call in reading.named("gather"):
        given = call.args[1:] if call.name == "torch.gather" else call.args
        axis, index = call.given("dim", int(call.name == "torch.gather")), call.given("index", 1)
        index = given[1] if len(given) == 2 else index
        value = objects.operand(call)
        if axis is None or axis.literal != 0 or axis.literal is False or index is None:
            continue
        of_network = value is not None and OF_NETWORK.search(render(reading, value))
        if of_network and INSERTED.fullmatch(expanded(reading, index, call, 1)):
            yield Match(call.span, "gather along axis 0 runs over the batch: the index is a column")


def _axis(call: Call) -> object:
    value = call.given("dim", int(call.name.startswith("torch.")))
    return value.literal if value is not None else None


def _pooled(reading: Training) -> Iterator[Match]:
    """x.mean(dim=0) in a forward, of what a convolution or a layer with batch_first returned."""
    for call in reading.named(*POOLS):
        axis = _axis(call)
        if axis != 0 or isinstance(axis, bool) or reading.function(call.scope).name != "forward":
            continue
        value = objects.operand(call)
        if value is not None and _has_samples_first(reading, value, call):
            yield Match(call.span, f"{call.method} along axis 0 pools the samples of the batch")


def _has_samples_first(reading: Training, value: Value, call: Call) -> bool:
    found = layer_before(reading, value, call.scope, reading.number(call), call.arms)
    convolved = found is not None and found[0].method in CONVOLUTIONS
    return convolved or has_batch_first(reading, value, call)


def _picked_over_time(reading: Training) -> Iterator[Match]:
    """argmax(dim=1) of (batch, time, classes)."""
    for call in reading.named("argmax"):
        value = objects.operand(call)
        if _axis(call) != 1 or _axis(call) is True or value is None:
            continue
        found = last_axis_is(reading, value, call)
        width = found[0].given("out_features", 1) if found is not None else None
        if width is not None and width.literal != 1 and has_batch_first(reading, value, call):
            yield Match(
                call.span, "argmax along axis 1 runs over time: the classes are the last axis"
            )


def _joined(reading: Training) -> Iterator[Match]:
    """torch.cat(outputs, dim=1) of a list with one output for each batch of a loader."""
    for call in reading.named("cat", "concat"):
        axis = _axis(call)
        listed = call.first
        if axis not in (1, -1) or axis is True or listed is None or listed.kind != "name":
            continue
        filled = [
            each
            for each in reading.named("append")
            if each.receiver == listed.name and each.scope == call.scope and len(each.args) == 1
            and len(each.loops) > len(call.loops)
        ]  # fmt: skip
        if filled and all(_is_output_of_batch(reading, each) for each in filled):
            yield Match(call.span, f"batches are joined along axis {axis}: samples are axis 0")


def _is_output_of_batch(reading: Training, call: Call) -> bool:
    over = reading.iterable_of(call)
    names = over.all_names if over is not None else ()
    batches = any(is_loader(name) or is_held_out(name) for name in names if name)
    made = outcomes(reading, call.args[0], call.scope, reading.number(call), call.arms)
    return batches and bool(made) and made <= {"logits", "softmax", "log_softmax"}
