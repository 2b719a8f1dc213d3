"""Losses that compare positives with negatives, and likelihoods read at the wrong place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import words
from doctor.checks.script.rendering import formulas, lines, written_out
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Span

POSITIVE, NEGATIVE = {"pos", "positive", "positives"}, {"neg", "negative", "negatives"}
GROWS = re.compile(r"-(?:torch\.nn\.functional\.)?logsigmoid\(\((?P<one>.*)-(?P<two>.*)\)\)")
NOISE = re.compile(
    r"logsigmoid\((?P<one>\w+)\).*\+(?:torch\.nn\.functional\.)?logsigmoid\((?P<two>\w+)\)"
)
COLUMNS = re.compile(
    r"(?:log_)?softmax\([^()]*(?:\([^()]*\)[^()]*)*\)(?:\.log\(\))?\[:,(?P<y>\w+)\]"
)
TARGETS = {"y", "target", "targets", "label", "labels", "yb", "gt"}
LOSSES = re.compile(r"(?:^|_)(?:ce|xent|nll|loss|entropy)(?:_|$)|loss|entropy", re.IGNORECASE)
MASKED = re.compile(
    r"torch\.nn\.functional\.cross_entropy\((?P<given>(?:[^()]|\([^()]*\))*)\)\*(?:\w+\.)*\w*mask\w*(?:\.float\(\))?\)"
)


def negatives(reading: Training) -> Iterator[Match]:
    for text, span, scope in reading.cached(formulas):
        if "logsigmoid" in text:
            yield from _pairs(reading, text, span, scope)
        if "[:," in text and "mean" in text:
            found = COLUMNS.search(written_out(reading, scope, text))
            if found and found["y"] in TARGETS and _are_labels(reading, found["y"], scope):
                message = f"[:, {found['y']}] takes the columns of all samples for each of them"
                yield Match(span, message, fix=f"p[torch.arange(len({found['y']})), {found['y']}]")
        if "mask" in text and "*" in text:
            whole = MASKED.search(written_out(reading, scope, text))
            if whole and "reduc" not in whole["given"]:
                message = "one number for all places is multiplied by a mask of them"
                yield Match(span, message, fix='cross_entropy(..., reduction="none")')


def _are_labels(reading: Training, name: str, scope: int) -> bool:
    """Of a batch: a loop over data binds them, or the function is a loss by its name. The column of
    one class, as for a saliency map, is a number."""
    bound = any(name in loop.targets for loop in reading.loops if loop.scope == scope)
    return bound or LOSSES.search(reading.function(scope).name) is not None


def _pairs(reading: Training, text: str, span: Span, scope: int) -> Iterator[Match]:
    if _is_exchanged(reading, text, scope):
        yield Match(span, "negatives are to score above positives: positive minus negative")
    elif _raises_negatives(reading, text, scope):
        yield Match(span, "scores of negatives are raised: logsigmoid(-negative) is meant")


def _side(reading: Training, text: str, scope: int) -> str:
    """ "pos" or "neg", by the names that a score is made of; "" for neither and for both."""
    whole = written_out(reading, scope, text)
    names = {w for name in re.findall(r"[A-Za-z_]\w*", f"{text} {whole}") for w in words(name)}
    positive, negative = bool(names & POSITIVE), bool(names & NEGATIVE)
    return "" if positive == negative else "pos" if positive else "neg"


def _is_exchanged(reading: Training, text: str, scope: int) -> bool:
    """-logsigmoid(negative - positive)."""
    found = GROWS.search(text)
    if found is None:
        return False
    return (
        _side(reading, found["one"], scope) == "neg"
        and _side(reading, found["two"], scope) == "pos"
    )


def _raises_negatives(reading: Training, text: str, scope: int) -> bool:
    """-(logsigmoid(positive) + logsigmoid(negative)), where no score has a minus of its own."""
    found = NOISE.search(text)
    if found is None or not text.startswith("-"):
        return False
    own = [line.text for line in reading.cached(lines)
           if line.scope == scope and line.target == found["two"]]  # fmt: skip
    return (
        _side(reading, found["one"], scope) == "pos"
        and _side(reading, found["two"], scope) == "neg"
        and not any(re.search(r"-|neg\(", line) for line in own)
    )
