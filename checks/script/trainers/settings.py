"""Rules on the settings of Trainers: what is evaluated, kept, resumed and trained."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training


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


RULES = (
    Rule(
        code="SCR279",
        slug="outputs-not-returned",
        title="compute_loss returns the outputs that evaluation asks for",
        severity="fail",
        find=outputs_not_returned,
        why="Evaluation calls compute_loss with return_outputs=True and unpacks a pair: a loss "
        "alone raises a TypeError after the first epoch.",
        fires=("an override with return_outputs that never reads it, and an eval_dataset",),
        fix="return (loss, outputs) if return_outputs else loss",
        needs=("compute_loss",),
        sources=("transformers-trainer",),
    ),
)
