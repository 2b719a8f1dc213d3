"""The nearest of all samples, among which is the sample itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import lines
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

ITSELF = re.compile(r"(?P<x>[\w.]+(?:\([\w.=,-]*\))?)@(?P=x)\.(?:t\(\)|T\b|mT\b)")
"""z @ z.T"""


def own_neighbours(reading: Training) -> Iterator[Match]:
    """sim = z @ z.T, sim.argmax(1): the nearest of all is the sample itself."""
    if reading.mentions("diag", "eye", "topk", "kthvalue"):
        return
    table = reading.cached(lines)
    for line in table:
        if "@" not in line.text or ITSELF.search(line.text) is None:
            continue
        changed = [
            each for each in table
            if each.scope == line.scope and each is not line
            and (each.target == line.target or each.target.startswith(f"{line.target}["))
        ]  # fmt: skip
        if changed or any(
            c.receiver == line.target and c.scope == line.scope and c.method.endswith("_")
            for c in reading.calls
        ):
            continue
        near = re.compile(rf"{re.escape(line.target)}\.argmax\((?:dim=)?-?1\)")
        for other in table:
            if other.scope == line.scope and near.fullmatch(other.text):
                yield Match(other.span, "the nearest of all samples is the sample itself")
