"""Metrics in text lines: the Trainer's dictionaries, Megatron's bars, `loss: 0.1`."""

from __future__ import annotations

import re

from doctor.log.metrics.curves import ALIASES, STEPS, Curves

_NAMES = sorted({*ALIASES, *STEPS}, key=len, reverse=True)
EVALUATION = "".join(f"(?<!{word} )" for word in ("val", "valid", "validation", "eval", "test"))
"""A name after one of these words is of an evaluation."""
METRIC = re.compile(
    rf"(?<![\w/-]){EVALUATION}['\"]?({'|'.join(map(re.escape, _NAMES))})['\"]?"
    r"(?:\s?\[[^\]]{1,20}\])?(?:\s{0,4}[:=]\s{0,4}(?:tensor\()?['\"]?"
    r"|\s{1,4}(?=[-+]?(?:nan\b|inf\b|\d{1,40}\.\d)))"
    r"([-+]?(?:nan|inf(?:inity)?\b|\d{1,40}(?:\.\d{0,40})?(?:e[-+]?\d{1,4})?))(?![\w.])",
    re.IGNORECASE,
)
"""A name, a colon or an equals sign, and a number; a space alone before one with a point."""
BARE = re.compile(r"\b(step|iteration|iter)\s{1,4}(\d{1,12})\b", re.IGNORECASE)
SUMMARY = ("train_runtime", "'eval_loss'", '"eval_loss"')
"""What only rows about a whole training or an evaluation contain."""
LOSS, NORM = b"loss", b"grad_norm"


def is_metric_line(template: bytes) -> bool:
    """Whether a line with these letters may contain a loss or a gradient norm."""
    return LOSS in template or NORM in template


def may_be_nonfinite(template: bytes) -> bool:
    """Whether it may contain NaN or infinity; "info" is no infinity."""
    return b"nan" in template or b"inf" in template.replace(b"info", b"")


def read_metrics(text: str, line: int, curves: Curves) -> None:
    """Add the metrics of a line to the curves."""
    text = text[:4096]
    if any(word in text for word in SUMMARY):
        return
    row: dict[str, float] = {}
    for match in METRIC.finditer(text):
        row.setdefault(match[1].lower(), float(match[2]))
    if not any(name in ALIASES for name in row):
        return
    step = next((int(row[name]) for name in STEPS if _whole(row.get(name))), None)
    if step is None and (bare := BARE.search(text)):
        step = int(bare[2])
    curves.add(step, row, line)


def _whole(value: float | None) -> bool:
    return value is not None and value == value and abs(value) < 2**53
