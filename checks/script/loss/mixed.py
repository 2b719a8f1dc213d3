"""Samples that are mixed, and a loss that knows nothing of their shares."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import lines
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

SHARE = re.compile(r"lam(?:bda)?_?|lmbda|lamb|lm|mix_?ratio|mix_?lam")


def shares_unread(reading: Training) -> Iterator[Match]:
    """x, y_a, y_b, lam = mixup(x, y), and nothing reads lam and y_b."""
    for line in reading.cached(lines):
        if not line.loops or not SHARE.fullmatch(line.target) or line.value.kind != "item":
            continue
        call = reading.call_of(line.value.items[0])
        if call is None or not re.search(r"mix", call.name, re.IGNORECASE):
            continue
        bound = [other.target for other in reading.cached(lines) if other.span == line.span]
        labels = [name for name in bound if name != line.target][1:]
        unread = [name for name in labels if not _is_read(reading, name, line.scope)]
        if len(labels) == 2 and unread and not _is_read(reading, line.target, line.scope):
            yield Match(
                line.span,
                f"samples are mixed, and the loss reads neither {line.target} nor {unread[0]}",
                fix="lam * loss(out, y_a) + (1 - lam) * loss(out, y_b).",
            )


def _is_read(reading: Training, name: str, scope: int) -> bool:
    key = reading.key(name, scope)
    values = [(v, where) for v, _, where in reading.expressions]
    values += [(b.test, scope) for b in reading.branches if b.test is not None]
    read = {(n.partition(".")[0], where) for v, where in values for n in v.all_names}
    read |= {(call.receiver.partition(".")[0], call.scope) for call in reading.calls}
    return any(n == name and reading.key(n, where) == key for n, where in read)
