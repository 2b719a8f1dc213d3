"""A rule on weights of classes and samplers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rendering import expanded
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

POSITIVE = r"(?:\w*(?:pos|positives?|fraud|ones)\w*|\w*\(?\(\w+==1\)\.sum\(\))"
NEGATIVE = r"(?:\w*(?:neg|negatives?|zeros)\w*|\(\w+==0\)\.sum\(\))"
BOUNDED = r"(?:(?:np|numpy|torch)\.(?:maximum|clip|clamp|max)\()?"
"""A bound against a division by 0."""
INVERTED = re.compile(
    rf"(?<!/)(?<!/\()\(?\b{POSITIVE}(?:\.\w+\(\))?/{BOUNDED}{NEGATIVE}", re.IGNORECASE
)
COUNTED = r"(?:\w*count\w*|\w*freq\w*|\w+\.bincount\((?:[^()]|\([^()]*\))*\)|\w*hist\w*)"
FREQUENCY = re.compile(
    rf"^(?:torch\.\w+\()?\(?({COUNTED})(?:\.float\(\))?/(?:\1\.sum\(\)|(?:np|torch|numpy)\.sum\(\1\)|sum\(\1\)|len\(\w+\)|"
    r"\w*total\w*)\)?", re.IGNORECASE)  # fmt: skip
CLASS = r"(?:class|categor|count)\w*"
OF_CLASSES = re.compile(
    rf"ListComp<(?:range\((?:len\([\w.]*{CLASS}\)|[\w.]*(?:num|n)_?{CLASS})\)|"
    rf"\w*{CLASS}\.values\(\)|\w+\.bincount\([\w.=,]*\)),\(?[^<>]*/[^<>]*>", re.I)  # fmt: skip
"""[1 / counts[c] for c in range(num_classes)], [1 / n for n in counts.values()]."""
LOSSES = ("CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss")


def weighed(reading: Training) -> Iterator[Match]:
    for call in reading.named("BCEWithLogitsLoss", "binary_cross_entropy_with_logits"):
        value = call.keywords.get("pos_weight")
        if value is not None and INVERTED.search(_text(reading, value, call)):
            message = "pos_weight is positives per negative: it is to be the inverse"
            yield Match(call.span, message, fix="pos_weight = negatives / positives.")
    for call in reading.named(*LOSSES):
        value = call.keywords.get("weight")
        if value is None and call.method == "CrossEntropyLoss" and call.args:
            value = call.args[0]
        if value is not None and FREQUENCY.search(_text(reading, value, call)):
            message = "weights are frequencies: rare classes count least"
            yield Match(call.span, message, fix="weight = counts.sum() / counts.")
    yield from _sampled(reading)
    for call in reading.named("WeightedRandomSampler"):
        again = evaluate.argument(reading, call, "replacement", 2)
        count = evaluate.argument(reading, call, "num_samples", 1)
        text = _text(reading, count, call) if count is not None else ""
        if again is not None and again.literal is False and text.startswith("len("):
            message = "all samples are drawn once: without replacement nothing weighs"
            yield Match(call.span, message, fix="Omit replacement=False.")


def _text(reading: Training, value: Value, call: Call) -> str:
    """The value with names followed, without what makes a tensor of it."""
    for _ in range(evaluate.DEPTH):
        if value.kind != "call":
            break
        made = reading.calls[value.call]
        if (
            made.method in ("tensor", "as_tensor", "FloatTensor", "Tensor", "from_numpy")
            and made.args
        ):
            value, call = made.args[0], made
        elif made.method in ("to", "cuda", "float") and (made.receiver or made.receiver_call >= 0):
            inner = Value("call", call=made.receiver_call)
            value = inner if made.receiver_call >= 0 else Value("name", name=made.receiver)
        elif (returned := _returned(reading, made)) is not None:
            value = returned
            call = reading.calls[value.call] if value.kind == "call" else call
        else:
            break
    if value.kind == "name":
        number = reading.number(call)
        found = evaluate.definitions(reading, value.name, call.scope, number, call.arms)
        if len(found) == 1 and found[0].scope == call.scope and found[0].value != value:
            return _text(reading, found[0].value, call)
    return expanded(reading, value, call, 0)


def _returned(reading: Training, made: Call) -> Value | None:
    """The call or the formula that a function of the file returns, from one place only."""
    number = reading.target_function(made)
    results = reading.returns(number)
    return results[0] if len(results) == 1 and results[0].kind in ("call", "other") else None


OF_SAMPLES = "weights = (1 / counts)[labels]: one per sample."


def _sampled(reading: Training) -> Iterator[Match]:
    """WeightedRandomSampler takes a weight per sample, high for rare classes."""
    for call in reading.named("WeightedRandomSampler"):
        value = call.given("weights", 0)
        if value is None:
            continue
        text = _text(reading, value, call)
        inverse = re.fullmatch(rf"\(?\(?1/{COUNTED}[\w.()=,]*", text) and "[" not in text
        if inverse or OF_CLASSES.fullmatch(text):
            message = "a weight per class: the sampler takes one per sample"
            yield Match(call.span, message, fix=OF_SAMPLES)
        indexed = re.fullmatch(r"(\w+)\[.*\]", text)
        if indexed and FREQUENCY.search(_text(reading, Value("name", name=indexed[1]), call)):
            message = "weights are frequencies: frequent classes are drawn more often"
            yield Match(call.span, message, fix=OF_SAMPLES)


RULES = (
    Rule(
        code="SCR346",
        slug="weights-of-classes",
        title="Rare classes weigh more",
        severity="fail",
        find=weighed,
        why="pos_weight multiplies the loss of positives, and weights multiply that of their "
        "class: they are inverse to the frequencies. WeightedRandomSampler has one weight per "
        "sample; with one per class it draws the first few samples only.",
        fires=(
            "pos_weight=positives / negatives",
            "weight=counts / counts.sum() of a cross-entropy, or of a sampler",
            "WeightedRandomSampler of 1 / counts, or of a list over the classes, without indexing "
            "by the labels",
            "WeightedRandomSampler(weights, len(weights), replacement=False)",
        ),
        fix="pos_weight = negatives / positives; weight = counts.sum() / counts; "
        "weights = (1 / counts)[labels].",
        sources=("torch-bce-logits", "torch-samplers"),
        needs=("pos_weight", "weight", "WeightedRandomSampler", *LOSSES),
    ),
)
