"""A rule on metrics of tokens, of which some have no label."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.trainers.contradictions import metric_functions
from doctor.checks.script.training import Training
from doctor.facts.script_machine import ScriptMachine

LEFT_OUT = re.compile(r"-100|ignore|mask|>=0|>-1|!=PAD|pad", re.IGNORECASE)


def counted(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """compute_metrics of labels with -100, which it does not leave out."""
    tokens = any("TokenClassification" in reading.calls[n].name for n in reading.loads)
    filled = "ignored_labels" in reading.script.identifiers or any(
        part.literal == -100 for v, _, _ in reading.expressions for part in flatten([v])
    )
    causal = any("CausalLM" in reading.calls[n].name for n in reading.loads)
    if not (tokens or (causal and filled)):
        return
    for scope in metric_functions(reading):
        function = reading.function(scope)
        own = [(v, s) for v, s, where in reading.expressions if where == scope]
        texts = [render(reading, v) for v, _ in own]
        compared = [c for c in reading.script.comparisons if c.scope == scope]
        texts += [
            f"{render(reading, c.left)}{c.operator}{render(reading, c.right)}" for c in compared
        ]
        calls = [reading.calls[n] for n in reading.scope_calls(scope)]
        elsewhere = [c for c in calls if reading.target_function(c) is not None]
        if any(LEFT_OUT.search(text) for text in texts) or elsewhere:
            continue
        scored = any(re.search(r"==", t) for t in texts) or any(
            c.name.startswith(("sklearn.metrics.", "seqeval.")) or c.method == "compute"
            for c in calls
        )
        if scored and any("label" in t or "argmax" in t for t in texts):
            yield Match(
                function.span, "places with label -100 count as wrong: they are not left out"
            )


RULES = (
    Rule(
        code="SCR358",
        slug="ignored-labels-counted",
        title="Metrics leave out places without a label",
        severity="fail",
        find=counted,
        why="Sub-words and padding have label -100, which no prediction equals: accuracy and F1 "
        "depend on how long the texts are.",
        fires=("compute_metrics of a token classifier that nowhere mentions -100",),
        fix="keep = labels != -100; compare predictions[keep] with labels[keep].",
        sources=("transformers-token-classification",),
        needs=("compute_metrics",),
    ),
)
