"""Axes of what a network returns that are taken for one another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import expanded
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

INSERTED = re.compile(r".*(?:\.unsqueeze\((?:dim=)?-?1\)|\.(?:view|reshape)\(-1,1\)|\[:,None\])")
"""A column: one number for each sample."""
GIVEN = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
OF_NETWORK = re.compile(
    rf"(?:\w+\.)*(?:\w+_)?(?:q|qf|q_net|qnet|dqn)(?:_\w+|\d)?{GIVEN}"
    rf"|(?:[\w.]+\.)?(?:log_)?softmax\([\w.]+(?:{GIVEN})?,(?:dim=)?(?:1|-1)\)",
    re.IGNORECASE,
)
"""One row for each sample: values of actions, or shares along the last axis."""


def over_batch(reading: Training) -> Iterator[Match]:
    """q(states).gather(0, actions.unsqueeze(1)): the number of an action is no row."""
    for call in reading.named("gather"):
        given = call.args[1:] if call.name == "torch.gather" else call.args
        axis, index = call.given("dim", int(call.name == "torch.gather")), call.given("index", 1)
        index = given[1] if len(given) == 2 else index
        value = objects.operand(call)
        if axis is None or axis.literal != 0 or axis.literal is False or index is None:
            continue
        text = expanded(reading, value, call, 2) if value is not None else ""
        of_network = OF_NETWORK.fullmatch(text)
        if of_network and INSERTED.fullmatch(expanded(reading, index, call, 1)):
            yield Match(call.span, "gather along axis 0 runs over the batch: the index is a column")


def constant_means(reading: Training) -> Iterator[Match]:
    """softmax(x, dim=-1).mean(dim=-1): shares sum to 1, and their mean is 1 / n for all x."""
    for call in reading.named("mean"):
        value, axis = objects.operand(call), _axis(reading, call)
        if value is None or axis is None or call.scope == 0 or "keepdim" in call.keywords:
            continue
        found = objects.last_definition(reading, value.name, call) if value.kind == "name" else ()
        made = reading.call_of(found[0] if len(found) == 1 else value)
        given = objects.softmax_of(reading, made) if made is not None else None
        if given is None or given[1].literal != axis:
            continue
        if value.kind != "name" or not _is_changed(reading, value.name, call.scope):
            message = f"shares that sum to 1 along axis {axis} are averaged along it: a constant"
            yield Match(call.span, message, "fail", fix="Take the mean over the other axes.")


def _is_changed(reading: Training, name: str, scope: int) -> bool:
    """p += 1, p[mask] = 0, p.clamp_(min=0.1), F.dropout(p, inplace=True): no shares any more."""
    stored = any(
        each.target.partition("[")[0] == name and (each.augmented or "[" in each.target)
        for each in reading.stores
        if each.scope == scope
    )
    return stored or any(
        name in (call.receiver, *(n for v in call.args for n in v.all_names))
        for call in reading.calls_in(scope)
        if call.method.endswith("_") or "inplace" in call.keywords or "out" in call.keywords
    )


def _axis(reading: Training, call: Call) -> int | None:
    """dim of softmax() and mean(), where it is written."""
    position = int(call.name.startswith(("torch.", "numpy.")))
    value = evaluate.argument(reading, call, "dim", position)
    axis = value.literal if value is not None and value.kind == "literal" else None
    return axis if isinstance(axis, int) and not isinstance(axis, bool) else None
