"""Losses that are written out with a sign or a factor that turns them around."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import expanded, render, statements
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

LOGARITHM = r"[\w.]*log_?(?:var|sigma|std|s2)\w*"
LIKELIHOOD = re.compile(
    rf"(?:\*\*2\)|\.(?:pow\(2\)|square\(\)))\*(?:(?P<one>{LOGARITHM})\.exp\(\)|"
    rf"torch\.exp\((?P<two>{LOGARITHM})\))"
)
"""(target - mean)² times the variance, where it is divided by it."""
OVERLAP = re.compile(r"\((?:\(2(?:\.0)?\*|2\*|\(\(2\*).*inter\w*.*\)/\(.*\+.*\)(?:\.mean\(\))?")
SHARE = re.compile(
    r"\(\(?\w*inter\w*(?:\+[\w.]+\))?/\(?\w*union\w*(?:\+[\w.]+\))?\)(?:\.mean\(\))?"
)
MATRIX = re.compile(r"@.*(?:\.t\(\)|\.T\b|\.mT\b|transpose\()|einsum\(|matmul\(.*(?:\.t\(\)|\.T\b)")
LARGEST = 0.5
"""A temperature of contrastive losses is smaller."""


def gaussians(reading: Training) -> Iterator[Match]:
    """(y - mu) ** 2 * logvar.exp() + logvar."""
    for text, span, _ in reading.cached(statements):
        found = LIKELIHOOD.search(text)
        name = (found["one"] or found["two"]) if found else ""
        if name and re.search(rf"\+(?:\(0?\.5\*)?{re.escape(name)}\b(?!\.exp)", text):
            message = f"the squared error is divided by the variance: exp(-{name})"
            yield Match(span, message)


def overlaps(reading: Training) -> Iterator[Match]:
    """A dice loss that returns the overlap itself, and no caller turns it around."""
    texts = [text for text, _, _ in reading.cached(statements)]
    for function in reading.script.functions:
        name = f"{function.owner}.{function.name}".casefold()
        if "loss" not in name or not re.search("dice|iou|jaccard|overlap", name):
            continue
        turned = any(re.search(r"(?:^|[(])1(?:\.0)?-[\w.]+\(", text) for text in texts)
        for value, span in zip(function.returns, function.exit_spans, strict=False):
            text = render(reading, value)
            if (OVERLAP.fullmatch(text) or SHARE.fullmatch(text)) and not turned:
                yield Match(span, "the overlap is minimized: a loss is 1 minus it")
    yield from _overlap_in_sum(reading)


def _overlap_in_sum(reading: Training) -> Iterator[Match]:
    """bce + dice(p, y), where dice() of this file returns the overlap."""
    functions = {
        function.name
        for function in reading.script.functions
        if function.returns and "loss" not in function.name.casefold()
        and all(_is_overlap(render(reading, v)) for v in function.returns)
    }  # fmt: skip
    names: dict[int, list[str]] = {}
    for each in reading.assignments if functions else ():
        called = reading.call_of(each.value)
        if called is not None and called.method in functions:
            names.setdefault(each.scope, []).append(re.escape(each.target))
    for text, span, scope in reading.cached(statements) if functions else ():
        added = "|".join([*names.get(scope, ()), *(rf"{f}\([^-]*\)" for f in functions)])
        term = rf"(?:\([\w.]+\*(?:{added})\)|(?:{added}))"
        if re.fullmatch(rf"\((?:[^-]*(?:bce|ce|loss|cross_entropy)[^-]*)\+{term}\)", text):
            yield Match(span, "the overlap is minimized: 1 minus it is the term of a loss")


def _is_overlap(text: str) -> bool:
    return bool(OVERLAP.fullmatch(text) or SHARE.fullmatch(text))


def similarities(reading: Training, call: Call, value: Value) -> str:
    """The number that a matrix of similarities is multiplied by before a cross entropy over the
    places of the samples; "" for none."""
    if value.name != "Mult" or call.method != "cross_entropy" or len(call.args) < 2:
        return ""
    numbers = [v.literal for v in value.items if isinstance(v.literal, float)]
    others = [v for v in value.items if v.kind != "literal"]
    if len(numbers) != 1 or len(others) != 1 or not 0 < numbers[0] <= LARGEST:
        return ""
    places = "arange" in expanded(reading, call.args[1], call, 2)
    matrix = MATRIX.search(expanded(reading, others[0], call, 2))
    return f"{numbers[0]:g}" if places and matrix else ""
