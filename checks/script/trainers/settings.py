"""Rules on the settings of Trainers: what is evaluated, kept, resumed and trained."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import expanded
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call


def outputs_not_returned(reading: Training) -> Iterator[Match]:
    evaluates = reading.methods("evaluate", "predict") or any(
        "eval_dataset" in reading.calls[n].keywords for n in reading.trainers
    )
    if reading.functions_by_name.keys() & {"prediction_step", "evaluation_loop", "evaluate"}:
        return
    for number in reading.functions_by_name.get("compute_loss", ()) if evaluates else ():
        function = reading.function(number)
        names = [parameter.name for parameter in function.parameters]
        bases = [b for c in reading.script.classes if c.name == function.owner for b in c.bases]
        if "return_outputs" not in names or not any(b.startswith("transformers.") for b in bases):
            continue
        read = any(
            "return_outputs" in (v.text, *v.all_names) or "return_outputs" in v.text
            for v, _, scope in reading.expressions
            if scope == number
        ) or any(
            branch.test is not None and "return_outputs" in branch.test.text
            for branch in reading.branches
        )
        if not read and function.returns:
            yield Match(function.span, "evaluation asks compute_loss for (loss, outputs)")
        if _wants_outputs(reading):
            yield from _logits_returned(reading, number)


def _wants_outputs(reading: Training) -> bool:
    """Without compute_metrics an evaluation asks for the loss alone."""
    if reading.setting("prediction_loss_only")[0] is not False:
        return False
    trainers = (reading.calls[n] for n in reading.trainers)
    return bool(reading.methods("predict")) or any(
        "compute_metrics" in call.keywords or call.unpacked for call in trainers
    )


def _logits_returned(reading: Training, scope: int) -> Iterator[Match]:
    """return loss, outputs.logits: of all but a dict the evaluation takes what is behind a loss."""
    function = reading.function(scope)
    for value, span in zip(function.returns, function.exit_spans, strict=False):
        pairs = [v for v in flatten([value]) if v.kind == "list" and len(v.items) == 2]
        for pair in pairs[:1]:
            place = Call(name="", span=span, scope=scope)
            text = expanded(reading, pair.items[1], place, 1)
            if re.fullmatch(r"[\w.]+(?:\(.*\))?(?:\.logits|\[logits\]|\['logits'\])", text):
                message = (
                    "evaluation takes outputs[1:] of a tensor: the first row of each batch is cut"
                )
                fix = 'return (loss, outputs) if return_outputs else loss, or {"logits": logits}.'
                yield Match(span, message, fix=fix)


RULES = (
    Rule(
        code="SCR279",
        slug="outputs-not-returned",
        title="compute_loss returns the outputs that evaluation asks for",
        severity="fail",
        find=outputs_not_returned,
        why="Evaluation calls compute_loss with return_outputs=True and unpacks a pair: a loss "
        "alone raises a TypeError after the first epoch. Of outputs that are no dict it takes "
        "outputs[1:], which of a tensor is all rows but the first.",
        fires=(
            "an override with return_outputs that never reads it, and an eval_dataset",
            "return loss, outputs.logits: a tensor in the place of the outputs",
        ),
        fix="return (loss, outputs) if return_outputs else loss",
        needs=("compute_loss",),
        sources=("transformers-trainer",),
    ),
)
