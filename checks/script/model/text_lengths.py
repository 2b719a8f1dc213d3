"""Texts that are longer than the positions of a pretrained model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

POSITIONS = (
    (r"(?:openai-community/|distilbert/)?(?:distil)?gpt2(?:-medium|-large|-xl)?", 1024),
    (r"(?:microsoft/)?(?:DialoGPT|biogpt)-?.*", 1024), (r"EleutherAI/gpt-neo-.*", 2048),
    (r"facebook/opt-.*", 2048), (r"facebook/bart-.*|sshleifer/distilbart-.*", 1024),
    (r"(?:google-bert/|distilbert/|google/)?(?:distil)?bert-(?:base|large)-[a-z-]+", 512),
    (r"(?:FacebookAI/|distilbert/)?(?:distil|xlm-)?roberta-(?:base|large)(?:-mnli)?", 512),
    (r"(?:google/electra|albert/albert|albert|camembert|dbmdz/bert)-.*", 512),
)  # fmt: skip
"""Learned positions of well-known checkpoints."""
OWN = ("max_position_embeddings", "n_positions", "config", "max_length", "model_max_length")
OTHERS = ("longformer", "position_embeddings", "wpe", "sliding", "chunk", "window", "overflow")
LENGTHS = ("max_length", "max_seq_length")


def too_long(reading: Training) -> Iterator[Match]:
    """tokenizer(text, truncation=True, max_length=1024) for BERT, blocks of 2048 for GPT-2."""
    most = _positions(reading)
    if not most or reading.mentions(*OTHERS) or _cuts_later(reading, most):
        return
    for call, value in _lengths(reading):
        found = evaluate.number(reading, value, call)
        if found and most < found < 1_000_000:
            message = f"texts of {found:g} tokens, and the model has {most} positions"
            yield Match(call.span, message, fix=f"Cut texts at {most} tokens.")


def _cuts_later(reading: Training, most: int) -> bool:
    """ids.split(512) of the tokens of a long text."""
    sizes = (value for call in reading.named("split", "unfold", "range") for value in call.args)
    return any(isinstance(v.literal, int) and most / 4 <= v.literal <= most for v in sizes)


def _positions(reading: Training) -> int:
    """Those of the one model of the file, 0 where it is unknown."""
    counts: set[int] = set()
    for n in reading.loads:
        call = reading.calls[n]
        value = evaluate.argument(reading, call, "pretrained_model_name_or_path", 0)
        names = evaluate.literals(reading, value, call)
        name = str(names.pop()) if len(names) == 1 else ""
        known = call.name.startswith("transformers.") and not any(k in call.keywords for k in OWN)
        fits = [size for pattern, size in POSITIONS if re.fullmatch(pattern, name)]
        counts.add(fits[0] if known and fits and not call.unpacked else 0)
    return counts.pop() if len(counts) == 1 else 0


def _lengths(reading: Training) -> Iterator[tuple[Call, Value]]:
    """Where texts are cut, and at how many tokens."""
    for call in reading.calls:
        settings = call.method.endswith("Config") and call.name.startswith("trl.")
        if "truncation" in call.keywords or settings:
            yield from ((call, call.keywords[key]) for key in LENGTHS if key in call.keywords)
    for call in reading.named("map"):
        value = call.given("function", 0)
        for scope in reading.functions_by_name.get(value.name, ()) if value is not None else ():
            for size in _blocks(reading, scope):
                yield call, size


def _blocks(reading: Training, scope: int) -> Iterator[Value]:
    """n of [ids[i:i + n] for i in range(0, total, n)]."""
    sizes = {
        part.items[1].items[1]
        for part in flatten(reading.values_in(scope))
        if part.kind == "item" and len(part.items) == 2 and part.items[1].kind == "slice"
    }
    for size in sizes:
        names = [v for v in size.items if size.name == "Add" and len(size.items) == 2]
        for call in reading.calls_in(scope):
            step = call.args[2] if call.name == "range" and len(call.args) == 3 else None
            if step is not None and step in names:
                yield step
