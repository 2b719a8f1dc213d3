"""Losses that are written out with a sign or a factor that turns them around."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import containing, expanded
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

LOGARITHM = r"[\w.]*log_?(?:var|sigma|std|s2)\w*"
LIKELIHOOD = re.compile(
    rf"(?:\*\*2\)|\.(?:pow\(2\)|square\(\)))\*(?:(?P<one>{LOGARITHM})\.exp\(\)|"
    rf"torch\.exp\((?P<two>{LOGARITHM})\))"
)
"""(target - mean)² times the variance, where it is divided by it."""
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
