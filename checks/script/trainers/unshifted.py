"""A metric of a causal model whose predictions are compared with the tokens they were made of."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.rendering import formulas
from doctor.checks.script.rule import Match
from doctor.checks.script.trainers.metric_functions import metric_functions
from doctor.checks.script.training import Training

SHIFTS = re.compile(r"[\[,]:-1\b|[\[,]1:|:-1\]|\.roll\(|narrow\(")
SCORES = ("accuracy_score", "f1_score", "compute", "eq", "equal", "array_equal")
OTHER_MODELS = ("Seq2SeqLM", "MaskedLM", "Classification", "QuestionAnswering")


def unshifted(reading: Training) -> Iterator[Match]:
    """preds == labels of a causal model: the prediction at t is of the token at t + 1."""
    names = reading.model_names
    causal = any("CausalLM" in name or "LMHead" in name for name in names)
    if not causal or any(other in name for name in names for other in OTHER_MODELS):
        return
    if reading.mentions("shift", "predict_with_generate") or not _is_here(reading):
        return
    if any(SHIFTS.search(text) for text, _, _ in reading.cached(formulas)):
        return
    for scope in metric_functions(reading):
        own = [each for each in reading.comparisons if each.scope == scope]
        ignores = any(-100 in (each.left.literal, each.right.literal) for each in own)
        equal = any(each.operator == "==" and each.right.kind != "literal" for each in own)
        calls = reading.calls_in(scope)
        scored = equal or any(call.method in SCORES for call in calls)
        decoded = any("decode" in call.method for call in calls)
        if ignores and scored and not decoded:
            yield Match(
                reading.function(scope).span,
                "the prediction at t is of the token at t + 1, and is compared with that at t",
                fix="preds = preds[:, :-1]; labels = labels[:, 1:].",
            )


def _is_here(reading: Training) -> bool:
    """Nothing of another file prepares what the metric gets."""
    for call in (reading.calls[n] for n in reading.trainers):
        value = call.keywords.get("preprocess_logits_for_metrics")
        written = value is None or value.items or list(objects.functions_of(reading, value, call))
        if not written or call.unpacked or "compute_loss_func" in call.keywords:
            return False
    return True
