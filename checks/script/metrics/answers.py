"""What generate() returns, and which of its settings take effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.metrics.generation import is_decoder
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render, texts_in
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call

SAMPLES = ("temperature", "top_p", "top_k", "typical_p")
DECODES = ("batch_decode", "decode")
SCORES = (
    "compute", "add_batch", "corpus_bleu", "sentence_bleu", "exact_match", "corpus_score", "rouge",
    "score",
)  # fmt: skip


def answers(reading: Training) -> Iterator[Match]:
    for call in reading.named("generate"):
        if not call.receiver or not is_decoder(reading, call):
            continue
        yield from _without_effect(reading, call)
        yield from _prompt_scored(reading, call)


def _without_effect(reading: Training, call: Call) -> Iterator[Match]:
    """temperature=0.7 beside do_sample=False."""
    switch = call.keywords.get("do_sample")
    if switch is None or evaluate.truth(reading, switch, call) is not False:
        return
    for key in SAMPLES:
        value = call.keywords.get(key)
        numbers = evaluate.literals(reading, value, call)
        if numbers and all(isinstance(v, int | float) and v not in (1, 0, 50) for v in numbers):
            yield Match(
                call.span, f"{key} has no effect: do_sample=False takes the likeliest token"
            )
            return


def _prompt_scored(reading: Training, call: Call) -> Iterator[Match]:
    """batch_decode(out) of a decoder has the prompt in front, and a metric compares it."""
    names = set(call.targets)
    if not any(
        other.keywords.keys() & {"predictions", "hypotheses"} or "bleu" in other.method
        for other in reading.named(*SCORES)
    ):
        return
    for n, made in reading.numbered(reading.methods(*DECODES)):
        value = made.first
        whole = value is not None and value.kind == "name" and value.name in names
        cut = _is_cut(reading, made, n) or any(
            a.target in names and "[" in render(reading, a.value)
            for a in reading.assignments
            if a.scope == made.scope
        )
        if whole and made.scope == call.scope and not cut:
            message = "the prompt is decoded with the answer, and both are scored: "
            yield Match(made.span, message + "cut out[:, prompt_length:]")


def _is_cut(reading: Training, made: Call, number: int) -> bool:
    """What was decoded is split or cut before it is used."""
    texts = texts_in(reading, made.scope)
    if any(
        re.search(r"\.(?:split|replace|removeprefix|partition|rpartition|strip_prompt)\(", t)
        or re.search(r"\[len\(", t)
        for t in texts
    ):
        return True
    return any(
        part.kind == "item" and number in part.calls
        for value, _, scope in reading.expressions
        if scope == made.scope
        for part in flatten([value])
    )


RULES = (
    Rule(
        code="SCR394",
        slug="generated-answers",
        title="Answers are scored without their prompts, and settings of sampling take effect",
        severity="warn",
        find=answers,
        why="generate() of a decoder returns the prompt and the answer: a metric of both is of the "
        "prompt for the most part. Without sampling temperature and top_p do nothing.",
        fires=(
            "batch_decode(generate(...)) of a causal model, given to a metric with the prompt",
            "temperature or top_p beside do_sample=False",
        ),
        fix="Decode out[:, inputs['input_ids'].shape[1]:]; pass do_sample=True, or no temperature.",
        sources=("transformers-26569",),
        needs=("generate",),
        words=(r"\.generate\(",),
    ),
)
