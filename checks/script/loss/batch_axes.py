"""Numbers of actions that are taken as rows of the batch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.rendering import expanded
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

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
