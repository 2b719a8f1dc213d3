"""A rule on means over places of which some are padding."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import expanded, lines_of, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

MASKED = re.compile(r"\(?[\w.\[\]()]*\*\(?(?:\w+\.)*\w*mask\w*(?:\.\w+\([\w-]*\)"
                    r"|\[[:,None .]*\])*\)?|"
                    r"\(?(?:\w+\.)*\w*mask\w*(?:\.\w+\([\w-]*\)"
                    r"|\[[:,None .]*\])*\*[\w.\[\]()]*")  # fmt: skip
STATES = re.compile(r".*\.last_hidden_state|.*\.hidden_states\[-1\]")


def pooled(reading: Training) -> Iterator[Match]:
    for call in reading.named("mean"):
        value = call.base
        given = list(call.args)
        if call.name.startswith("torch.") and call.args:
            value, given = call.args[0], list(call.args[1:])
        axis = (
            call.keywords.get("dim") or call.keywords.get("axis") or (given[0] if given else None)
        )
        if axis is None or axis.literal != 1:
            continue
        text = render(reading, value) if value is not None else ""
        if not text and call.receiver:
            text = expanded(reading, Value("name", name=call.receiver), call, 1)
        elif value is not None and value.kind == "name":
            text = expanded(reading, value, call, 1)
        text = _below_layers(reading, text, call)
        if MASKED.fullmatch(text):
            yield Match(call.span, "masked places are counted: divide the sum by mask.sum(1)")
        elif STATES.fullmatch(text) and _gets_mask(reading, call):
            message = "the mean counts padding: multiply by the mask and divide by mask.sum(1)"
            yield Match(call.span, message, "warn")


KEPT = re.compile(r"self\.\w*(?:drop|norm|ln)\w*\((?P<inner>\w+)\)", re.IGNORECASE)


def _below_layers(reading: Training, text: str, call: Call) -> str:
    """hidden_states of hidden = self.dropout(hidden): the value that the name held before."""
    kept = KEPT.fullmatch(text)
    before = [
        line.text
        for line in lines_of(reading, call.scope, kept["inner"] if kept else "")
        if line.text != text
    ]
    return before[0] if len(before) == 1 else text


def _gets_mask(reading: Training, call: Call) -> bool:
    """The function passes an attention mask to the network whose states it averages."""
    calls = list(reading.calls_in(call.scope))
    if any(_pads(other) for other in calls):
        return True
    if reading.function(call.scope).name not in ("forward", "encode", "embed"):
        return False
    return any("attention_mask" in other.keywords for other in calls)


def _pads(call: Call) -> bool:
    """A tokenizer fills several texts up in the same function."""
    value = call.keywords.get("padding")
    texts = call.args[0].name if call.args else ""
    several = re.search(r"s$|batch|list", texts) is not None
    return several and value is not None and value.literal in (True, "longest", "max_length")


RULES = (
    Rule(
        code="SCR414",
        slug="padding-in-mean",
        title="Means over places leave out padding",
        severity="fail",
        find=pooled,
        why="mean(1) divides by the width of the padded batch: the same text gets another vector "
        "in another batch, and short texts are pulled towards 0.",
        fires=(
            "(states * mask).mean(1)",
            "last_hidden_state.mean(1) beside an attention_mask (a warning)",
        ),
        fix="(states * mask).sum(1) / mask.sum(1).clamp(min=1)",
        sources=("d2l-en-2707",),
        needs=("mean",),
    ),
)
