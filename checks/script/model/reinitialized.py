"""A rule on weights that are loaded and then drawn anew."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

INIT = re.compile(
    r"(?:^|_)(?:init\w*|reset\w*|weights?_init\w*|xavier|kaiming)|init$", re.IGNORECASE
)


def reinitialized(reading: Training) -> Iterator[Match]:
    """model = resnet18(weights=...); model.apply(init_weights)."""
    for number, call in reading.numbered(reading.methods("apply")):
        if not call.receiver or len(call.args) != 1 or call.args[0].kind != "name" or call.arms:
            continue
        if not INIT.search(call.args[0].name.rpartition(".")[2]) or not _draws(reading, call):
            continue
        how = _loaded_before(reading, call, number)
        if how:
            yield Match(call.span, f"{call.args[0].name} draws the weights anew that {how} set")


def _draws(reading: Training, call: Call) -> bool:
    """A function of this file that uses nn.init for common layers, or one of another file."""
    found = list(objects.functions_of(reading, call.args[0], call))
    if not found:
        return True
    return any(
        other.name.startswith("torch.nn.init.") or other.method in
        ("normal_", "xavier_uniform_", "kaiming_normal_", "reset_parameters", "uniform_")
        for scope in found
        for other in reading.calls_in(scope)
    )  # fmt: skip


def _loaded_before(reading: Training, call: Call, number: int) -> str:
    for n, each in reading.numbered(reading.methods("load_state_dict")):
        same = each.receiver == call.receiver and each.scope == call.scope
        if same and n < number and not each.arms:
            again = [m for m in reading.methods("load_state_dict") if m > number]
            if not any(reading.calls[m].receiver == call.receiver for m in again):
                return "load_state_dict()"
    owner = Value("name", name=call.receiver)
    for made in objects.makers(reading, owner, call.scope, number, call.arms):
        if made is None:
            return ""
        weights = made.keywords.get("weights")
        given = weights is not None and (weights.kind != "literal" or weights.literal is not None)
        pretrained = made.keywords.get("pretrained")
        flag = pretrained is not None and pretrained.literal is True
        known = made.name.startswith(("torchvision.models.", "timm.create_model"))
        if (known and (given or flag)) or made.method == "from_pretrained":
            return f"{made.method}()"
    return ""


RULES = (
    Rule(
        code="SCR415",
        slug="pretrained-drawn-anew",
        title="Loaded weights are not initialized again",
        severity="fail",
        find=reinitialized,
        why="apply() runs its function on all layers, the loaded ones included: the training "
        "starts "
        "from random numbers, and only the loss tells.",
        fires=(
            "model.apply(init_weights) of a pretrained network",
            "load_state_dict(), and apply(init_weights) behind it",
        ),
        fix="Initialize before loading, or new layers alone: model.fc.apply(init_weights).",
        sources=("torch-init",),
        needs=("apply",),
    ),
)
