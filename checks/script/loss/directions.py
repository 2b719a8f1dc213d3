"""Losses that are written out with a sign or a factor that turns them around."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import PREDICTED, TRUE, words
from doctor.checks.script.rendering import containing, expanded, lines_of
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

LOGARITHM = r"[\w.]*log_?(?:var|sigma|std|s2)\w*"
LIKELIHOOD = re.compile(
    rf"(?:\*\*2\)|\.(?:pow\(2\)|square\(\)))\*(?:(?P<one>{LOGARITHM})\.exp\(\)|"
    rf"torch\.exp\((?P<two>{LOGARITHM})\))"
)
"""(target - mean)² times the variance, where it is divided by it."""
PINBALL = re.compile(
    r"max(?:imum)?\((?:\((?P<q>\w+)\*(?P<e>\w+)\),\(\((?P=q)-1\)\*(?P=e)\)"
    r"|\(\((?P<q2>\w+)-1\)\*(?P<e2>\w+)\),\((?P=q2)\*(?P=e2)\))"
    r"|where\(\((?P<e3>\w+) ?>=? ?0\),\((?P<q3>\w+)\*(?P=e3)\),\(\((?P=q3)-1\)\*(?P=e3)\)\)"
)
"""The quantile loss (Koenker and Bassett, 1978) of an error e = target - output."""
TARGET = TRUE | {"y", "actual", "observed"}
MATRIX = re.compile(r"@.*(?:\.t\(\)|\.T\b|\.mT\b|transpose\()|einsum\(|matmul\(.*(?:\.t\(\)|\.T\b)")
LARGEST = 0.5
"""A temperature of contrastive losses is smaller."""


def gaussians(reading: Training) -> Iterator[Match]:
    """(y - mu) ** 2 * logvar.exp() + logvar."""
    for text, span, _ in containing(reading, LIKELIHOOD):
        found = LIKELIHOOD.search(text)
        name = (found["one"] or found["two"]) if found else ""
        if name and re.search(rf"\+(?:\(0?\.5\*)?{re.escape(name)}\b(?!\.exp)", text):
            message = f"the squared error is divided by the variance: exp(-{name})"
            yield Match(span, message)


def quantiles(reading: Training) -> Iterator[Match]:
    """max(q * e, (q - 1) * e) of e = prediction - target: the output learns quantile 1 - q."""
    for text, span, scope in containing(reading, PINBALL):
        found = PINBALL.search(text)
        name = (found["e"] or found["e2"] or found["e3"]) if found else ""
        level = (found["q"] or found["q2"] or found["q3"]) if found else ""
        errors, levels = (lines_of(reading, scope, n) for n in (name, level))
        error = re.match(r"\((\w+)[^-]*-(\w+)", errors[0].text) if len(errors) == 1 else None
        turned = any("1-" in each.text for each in levels)
        if error and not turned and PREDICTED & {*words(error[1])} and TARGET & {*words(error[2])}:
            message = f"{name} is output - target: the output for {level} learns 1 - {level}"
            yield Match(span, message, fix=f"{name} = {error[2]} - {error[1]}")


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
