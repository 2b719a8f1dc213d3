"""Inputs and targets of a language model that are the same tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import Line, lines, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

INPUTS = {"x", "xb", "x_batch", "inputs", "input", "input_ids", "idx", "context", "src", "inp"}
TARGETS = {"y", "yb", "y_batch", "targets", "target", "labels", "tgt", "label"}
WINDOW = re.compile(r"\w\[(?:[^\[\]]*,)?(?:\w+:\(\w+\+|:-1\b|:\w+\]|1:)")
"""data[i:i + n], ids[:, :-1]."""
OTHER_TASKS = (
    "mask_token", "mask_id", "mask_prob", "mask_ratio", "masked_lm", "random_mask", "apply_mask",
    "mlm", "autoenc", "reconstruct", "noise", "corrupt", "vae", "denois", "roll", "shift",
)  # fmt: skip
"""Names of what makes a target of the same tokens, or moves them later."""
MESSAGE = "inputs and targets are the same tokens: each is to predict the next one"
FIX = "Cut the targets one token later: y = data[i + 1 : i + 1 + n]."


def same_window(reading: Training) -> Iterator[Match]:
    """x = data[i:i + n] and y = data[i:i + n]."""
    language = reading.mentions("vocab", "cross_entropy", "crossentropy", "gpt", "next_token")
    inside = "labels" in reading.script.identifiers and reading.loads
    if not language or inside or reading.mentions(*OTHER_TASKS):
        return
    last: dict[int, Line] = {}
    for line in reading.cached(lines):
        before = last.get(line.scope)
        pair = before is not None and before.target.casefold() in INPUTS and (
            line.target.casefold() in TARGETS
        )  # fmt: skip
        if pair and before is not None and before.text == line.text and WINDOW.search(line.text):
            yield Match(line.span, MESSAGE, fix=FIX)
        last[line.scope] = line
    for function in reading.script.functions:
        for value, span in zip(function.returns, function.exit_spans, strict=False):
            texts = [render(reading, item) for item in value.items] if value.kind == "list" else []
            if len(texts) == 2 and texts[0] == texts[1] and WINDOW.search(texts[0]):
                yield Match(span, MESSAGE, fix=FIX)
