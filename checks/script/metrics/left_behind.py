"""Parts of an average that do not follow, and a decay that overwrites itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.metrics.averaging import MEMBERS
from doctor.checks.script.rendering import lines
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

UPDATES = re.compile(r"update|step|call|forward|ema|average")


def left_behind(reading: Training) -> Iterator[Match]:
    yield from _one_of_two(reading)
    yield from _decay_overwritten(reading)


def _one_of_two(reading: Training) -> Iterator[Match]:
    """encoder_k and head_k are copies; only encoder_k moves towards its source."""
    copies = {
        reading.key(each.target, each.scope): each
        for each in reading.assignments
        if each.target.startswith("self.") and reading.called(each.value) == "copy.deepcopy"
    }
    if len(copies) < 2:
        return
    moved = _blended(reading)
    kept = [key for key in copies if key not in moved]
    for key in kept if len(kept) < len(copies) else ():
        name = key[1]
        runs = any(c.name == name and reading.key(name, c.scope) == key for c in reading.calls)
        passed = any(
            value.name == name and call.method not in ("deepcopy", "print")
            for call in reading.calls
            for value in call.values
        )
        loaded = any(c.receiver == name for c in reading.named("load_state_dict"))
        listed = any(name in v.all_names for a in reading.assignments for v in (a.value,)
                     if a.value.kind == "list")  # fmt: skip
        if runs and not (passed or loaded or listed):
            others = ", ".join(sorted(other[1] for other in copies if other in moved))
            yield Match(copies[key].span, f"{name} stays as it was copied: only {others} follows",
                        fix=f"Update {name} where {others} is.")  # fmt: skip


def _blended(reading: Training) -> set[tuple[object, str]]:
    """Networks whose parameters a loop goes over beside those of another."""
    found = set()
    for call in reading.named("zip"):
        members = [c for v in call.args for c in reading.inside(v) if c.method in MEMBERS]
        found |= {reading.key(c.receiver, call.scope) for c in members if c.receiver}
    return found


def _decay_overwritten(reading: Training) -> Iterator[Match]:
    """self.decay = min(self.decay, ramp): the ramp begins low, and the decay stays there."""
    for line in reading.cached(lines):
        if not re.search(r"^self\.\w*(?:decay|beta|momentum|tau)$", line.target):
            continue
        itself = re.search(rf"\bmin\((?:[^,]*,)?{re.escape(line.target)}\b", line.text)
        if itself and UPDATES.search(reading.function(line.scope).name):
            name = line.target
            yield Match(line.span, f"{name} is overwritten by its own minimum: it never rises",
                        fix="Keep the result in a local variable.")  # fmt: skip
