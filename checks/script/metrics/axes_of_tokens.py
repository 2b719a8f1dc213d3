"""The axis that compute_metrics of a model for tokens chooses classes along."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.trainers.metric_functions import metric_functions
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

OF_TOKENS = ("TokenClassification", "MaskedLM", "CausalLM")
"""Models whose logits are (batch, tokens, classes)."""
GIVEN_LOGITS = {"logits", "predictions", "preds"}


def over_tokens(reading: Training) -> Iterator[Match]:
    """np.argmax(logits, axis=1) of (batch, tokens, classes): the number of a token."""
    names = reading.model_names
    if not names or not all(any(kind in name for kind in OF_TOKENS) for name in names):
        return
    for scope in metric_functions(reading):
        for call in reading.calls_in(scope):
            value = objects.operand(call) if call.method == "argmax" else None
            position = int(call.name.startswith(("torch.", "numpy.")))
            axis = call.keywords.get("axis") or evaluate.argument(reading, call, "dim", position)
            if value is None or axis is None or axis.literal != 1 or axis.literal is True:
                continue
            if value.name.rpartition(".")[2] in GIVEN_LOGITS and _is_given(reading, value, call):
                yield Match(
                    call.span,
                    "argmax along axis 1 is the number of a token: classes are the last axis",
                    "fail",
                )


def _is_given(reading: Training, value: Value, call: Call) -> bool:
    """The logits as they came: a part of the argument of the function."""
    found = objects.last_definition(reading, value.name, call)
    return not reading.mentions("preprocess_logits_for_metrics") and all(
        not each.calls and PLAIN.fullmatch(render(reading, each)) for each in found
    )


PLAIN = re.compile(r"<>|[\w.]+(?:\[[\d']\w*'?\])*")
"""A part of a tuple, a name, and p[0] of it: logits[keep] has other axes."""
