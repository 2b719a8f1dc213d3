"""Targets and scales of matrices of similarities."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import expanded, formulas, lines, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

PRODUCT = re.compile(
    r"(?P<a>[\w.]+(?:\([^@]*\))?)@(?P<b>[\w.]+(?:\([^@]*\))?)\.(?:t\(\)|T|mT|transpose\([^@]*\))"
    r"|(?:mm|matmul)\((?P<c>[\w.]+),(?P<d>[\w.]+)\.(?:t\(\)|T|mT|transpose\([^@]*\))\)"
)
OTHERS = re.compile("queue|memory|bank|neg|proto|weight|cent|cat\\(|stack\\(")
ZEROS = re.compile(
    r"torch\.zeros\((?:len\(|[\w.]+\.(?:size\(0\)|shape\[0\])|\w*batch\w*|n\b|b\b|B\b).*"
)


def targets(reading: Training) -> Iterator[Match]:
    yield from _first_column(reading)
    yield from _logarithm(reading)


def _first_column(reading: Training) -> Iterator[Match]:
    """cross_entropy(a @ b.t(), zeros): the pair of sample i is in column i."""
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind != "cross_entropy" or len(call.args) < 2:
            continue
        logits, labels = (expanded(reading, value, call, 3) for value in call.args[:2])
        if not PRODUCT.search(logits) or not ZEROS.match(labels) or OTHERS.search(logits):
            continue
        yield Match(
            call.span, "all targets are 0: the partner of sample i is in column i, arange(n)"
        )


def _logarithm(reading: Training) -> Iterator[Match]:
    """logit_scale = Parameter(log(1 / 0.07)), and the logits are multiplied by it as it is."""
    for line in reading.cached(lines):
        scale = re.search(r"scale|temperature|tau", line.target)
        made = re.search(r"Parameter\(.*(?:numpy|math|torch)?\.?log\(", line.text) or re.search(
            r"Parameter\(.*(?:2\.659|4\.605)", line.text
        )
        if not scale or not made or not line.target.startswith("self."):
            continue
        name = line.target.removeprefix("self.")
        texts = [text for text, _, _ in reading.cached(formulas)]
        texts += [render(reading, v) for f in reading.script.functions for v in f.returns]
        read = [t for t in texts if re.search(rf"\b{name}\b", t) and t != line.text]
        if any(
            re.search(rf"exp\([\w.]*{name}|{name}\.exp\(|softplus\([\w.]*{name}", t) for t in read
        ):
            return
        plain = re.compile(rf"\((?:self\.|\w+\.)*{name}\*|\*(?:self\.|\w+\.)*{name}\b")
        if any(c.receiver.endswith(name) and c.method == "exp" for c in reading.calls):
            return
        for value, span, _ in reading.expressions:
            if plain.search(render(reading, value)):
                yield Match(span, f"{name} is a logarithm: logits are multiplied by {name}.exp()")
                return
