"""Ends of episodes by a time limit, behind which rewards would go on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.naming import words
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

ENDLESS = re.compile(r"(?:Pendulum|HalfCheetah|Swimmer|Reacher|Pusher)-v\d+")
"""Environments of Gymnasium that never terminate: only their time limit ends an episode."""
FLAGS = {"done", "dones", "d", "nonterminal", "nonterminals", "mask", "masks", "terminal", "not"}
DISCOUNT = {"gamma", "discount"}
CASTS = ("as_tensor", "tensor", "float", "from_numpy", "array", "asarray", "astype", "to", "int",
         "float32", "FloatTensor", "Tensor", "bool", "unsqueeze", "reshape", "view")  # fmt: skip


def endless(reading: Training) -> set[str]:
    """The environments that a file names, if all of them go on without an end."""
    names = [v.literal for v in flatten([v for v, _, _ in reading.expressions])]
    fields = [v.literal for c in reading.script.classes for v in c.fields.values()]
    shown = {n for n in (*names, *fields) if isinstance(n, str) and re.search(r"-v\d+$", n)}
    return shown if all(ENDLESS.search(name) for name in shown) else set()


def time_limits(reading: Training) -> Iterator[Match]:
    """done = terminated | truncated is stored for returns of an environment without an end."""
    shown = endless(reading)
    if not shown or _bootstraps(reading):
        return
    for value, place, target in _stored(reading):
        inner = uncast(reading, value)
        found = objects.last_definition(reading, inner.name, place) if inner.name else [inner]
        if {*words(target)} & FLAGS and found and all(is_either(reading, v) for v in found):
            yield Match(
                place.span,
                f"{target} is also True at the time limit, the only end of {min(shown)}: the value "
                "after it is cut off",
                "warn",
                fix="On truncation add gamma * value(final observation); mask by terminated alone.",
            )
            return


def _bootstraps(reading: Training) -> bool:
    """The value after a time limit is added, or rewards have no discount."""
    return reading.mentions(
        "final_obs", "final_info", "terminal_obs", "timelimit", "time_limit", "bootstrap"
    ) or not reading.mentions(*DISCOUNT)


def _stored(reading: Training) -> Iterator[tuple[Value, Call, str]]:
    """dones[t] = done and dones.append(done) in a loop, with the name of the store."""
    for each in reading.stores:
        if each.loops and "[" in each.target and each.position < len(reading.calls):
            place = Call(name="", span=each.span, scope=each.scope, arms=each.arms)
            yield each.value, place, each.target.partition("[")[0]
    for call in reading.named("append"):
        if call.loops and len(call.args) == 1 and call.args[0].kind != "list":
            yield call.args[0], call, call.receiver


def uncast(reading: Training, value: Value) -> Value:
    """done in float(done), np.float32(done) and torch.as_tensor(done, dtype=torch.float32)."""
    call = reading.call_of(value)
    if call is None or is_either(reading, value):
        return value
    if len(call.args) == 1 and (call.method in CASTS or not call.keywords):
        return call.args[0] if call.method not in ("to", "astype") else _inner(reading, call, value)
    return _inner(reading, call, value) if call.method in CASTS else value


def _inner(reading: Training, call: Call, value: Value) -> Value:
    below = objects.operand(call)
    return uncast(reading, below) if below is not None and below is not value else value


def is_either(reading: Training, value: Value) -> bool:
    """terminated or truncated, also by | and logical_or()."""
    call = reading.call_of(value)
    joined = call is not None and call.method in ("logical_or", "bitwise_or")
    joined |= value.name == "BitOr" or (value.kind == "test" and " or " in value.text)
    return joined and any(re.match("trunc", name) for name in value.names)
