"""The last place of texts that are padded on the right."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import formulas_in, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

DECODERS = re.compile(r"transformers\.AutoModel(?:ForCausalLM)?\.from_pretrained")
FAMILIES = re.compile(
    r"gpt|llama|qwen|mistral|gemma|phi-?\d|opt-|bloom|pythia|falcon|olmo|smollm", re.IGNORECASE
)
"""Decoders. The last place of an encoder is no summary of a text with either side."""
HIDDEN = re.compile(r"last_hidden_state|hidden_states\[-1\]")
LENGTHS = re.compile(r"sum\(|argmax|cumsum|lengths?\b|gather|flip|nonzero|eos|eq\(|==")
"""How the last token of a text is found."""


def behind_the_text(reading: Training) -> Iterator[Match]:
    """hidden[:, -1] of a decoder whose tokenizer pads on the right."""
    sides = {v.literal for v in _sides(reading)}
    if sides != {"right"} or not _pads(reading):
        return
    for call in reading.calls:
        function = reading.function(call.scope)
        made = objects.callee(reading, call) if "attention_mask" in call.keywords else []
        decodes = made and all(m is not None and _decodes(reading, m) for m in made)
        if not decodes or function.owner not in reading.modules:
            continue
        texts = formulas_in(reading, call.scope)
        if any(LENGTHS.search(text) for text, _ in texts):
            continue
        own = [a for a in reading.assignments if a.scope == call.scope]
        hidden = [a.target for a in own if HIDDEN.search(render(reading, a.value))]
        taken = re.compile(rf"(?:{'|'.join(map(re.escape, hidden))})\[:,-1(?:,:)?\]")
        for text, span in texts if hidden else ():
            if taken.search(text):
                yield Match(
                    span,
                    "the last place of a shorter text is padding: the tokenizer pads on the right",
                    "fail",
                    fix="Take hidden[rows, attention_mask.sum(1) - 1].",
                )
                return


def _decodes(reading: Training, made: Call) -> bool:
    """A class of decoders alone, or a checkpoint whose name is that of a family of them."""
    if not DECODERS.fullmatch(made.name) or not made.args:
        return False
    names = [str(v.literal) for v in evaluate.options(reading, made.args[0], made)]
    return "CausalLM" in made.name or (bool(names) and all(map(FAMILIES.search, names)))


def _pads(reading: Training) -> bool:
    """Texts of several lengths are in one batch."""
    padded = [c.keywords["padding"].literal for c in reading.calls if "padding" in c.keywords]
    sizes = {v.literal for c in reading.calls for k, v in c.keywords.items() if "batch_size" in k}
    return any(v is True or v in ("longest", "max_length") for v in padded) and sizes != {1}


def _sides(reading: Training) -> Iterator[Value]:
    """What padding_side is set to."""
    for each in reading.assignments:
        if each.target.endswith(".padding_side"):
            yield each.value
    for call in reading.named("from_pretrained"):
        if "padding_side" in call.keywords:
            yield call.keywords["padding_side"]
