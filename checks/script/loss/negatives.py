"""Losses that compare positives with negatives, and likelihoods read at the wrong place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import DISTANCE, words
from doctor.checks.script.rendering import formulas, lines_of, written_out
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
    r"torch\.nn\.functional\.cross_entropy\((?P<given>(?:[^()]|\([^()]*\))*)\)\*(?:\w+\.)*(?:\w+_)?masks?(?:\.float\(\))?\)"
)
SWITCH = re.compile(r"(?:has|is|use|with|num|n)_\w*mask")
MINUS = re.compile(r"(?<![\w\])])-|\bneg(?:ative)?\(")


def negatives(reading: Training) -> Iterator[Match]:
    yield from references(reading)
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
            if whole and "reduc" not in whole["given"] and not SWITCH.search(whole[0]):
                message = "one number for all places is multiplied by a mask of them"
                yield Match(span, message, fix='cross_entropy(..., reduction="none")')


def _are_labels(reading: Training, name: str, scope: int) -> bool:
    """Of a batch: a loop over data binds them, or the function is a loss by its name. The column of
    one class, as for a saliency map, is a number."""
    if any(name in loop.targets for loop in reading.loops if loop.scope == scope):
        return True
    function = reading.function(scope)
    numbers = any(
        each.name == name and (each.annotation == "int" or each.default is not None)
        for each in function.parameters
    )
    return LOSSES.search(function.name) is not None and not numbers


def _pairs(reading: Training, text: str, span: Span, scope: int) -> Iterator[Match]:
    if _is_exchanged(reading, text, scope):
        yield Match(
            span,
            "negatives are to score above positives: positive minus negative",
            fix="-logsigmoid(positive - negative)",
        )
    elif _raises_negatives(reading, text, scope):
        yield Match(
            span,
            "scores of negatives are raised: logsigmoid(-negative) is meant",
            fix="-(logsigmoid(positive) + logsigmoid(-negative))",
        )


DIFFERENCE = re.compile(r"\((?P<one>[\w.]+)-(?P<two>[\w.]+)\)")
SIDES = (re.compile("chosen|win|preferred"), re.compile("reject|los(?:e|s|t|ing)(?!s)"))


def references(reading: Training) -> Iterator[Match]:
    """(chosen - rejected) - (ref_rejected - ref_chosen): the reference is turned around."""
    if not reading.mentions("rejected", "losing"):
        return
    for text, span, scope in reading.cached(formulas):
        for found in DIFFERENCE.finditer(text):
            pair = (found["one"], found["two"])
            if _are_turned(reading, pair, scope):
                message = f"{pair[0]} and {pair[1]} take chosen and rejected in other orders"
                yield Match(span, message, fix="(chosen - rejected) - (ref_chosen - ref_rejected)")
                return


def _are_turned(reading: Training, pair: tuple[str, str], scope: int) -> bool:
    """One is chosen - rejected, the other rejected - chosen."""
    held = [DIFFERENCE.fullmatch(a.text) for name in pair for a in lines_of(reading, scope, name)]
    return sorted(_order(each) for each in held if each is not None) == [-1, 1]


def _order(difference: re.Match[str]) -> int:
    """1 of chosen - rejected, -1 of rejected - chosen, 0 of anything else."""
    first, second = SIDES
    one, two = difference["one"], difference["two"]
    if first.search(one) and second.search(two):
        return 1
    return -1 if second.search(one) and first.search(two) else 0


def _side(reading: Training, text: str, scope: int) -> str:
    """ "pos" or "neg", by the names that a score is made of; "" for neither and for both."""
    whole = written_out(reading, scope, text)
    names = {w for name in re.findall(r"[A-Za-z_]\w*", f"{text} {whole}") for w in words(name)}
    positive, negative = bool(names & POSITIVE), bool(names & NEGATIVE)
    return "" if positive == negative else "pos" if positive else "neg"


def _is_exchanged(reading: Training, text: str, scope: int) -> bool:
    """-logsigmoid(negative - positive), unless these are distances."""
    found = GROWS.search(text)
    if found is None or is_distance(reading, scope, f"{found['one']} {found['two']}"):
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
    own = [line.text for line in lines_of(reading, scope, found["two"])]
    own.append(written_out(reading, scope, found["two"]))
    return (
        _side(reading, found["one"], scope) == "pos"
        and _side(reading, found["two"], scope) == "neg"
        and not any(MINUS.search(line) for line in own)
    )


def is_distance(reading: Training, scope: int, text: str) -> bool:
    """Whether a text is computed by a distance, also by one that a function of the file returns."""
    whole = f"{text} {written_out(reading, scope, text)}"
    called = {name for name in re.findall(r"(\w+)\(", whole) if name in reading.functions_by_name}
    inside = {number for name in called for number in reading.functions_by_name[name]}
    texts = [line for line, _, own in reading.cached(formulas) if own in inside]
    return any(DISTANCE.search(each) for each in (whole, *texts))
