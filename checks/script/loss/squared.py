"""Differences of a column and a row, which are as many as pairs of samples."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value

Place = tuple[int, int]
"""Scope and position."""
DEPTH = 6
GOALS = re.compile(
    r"(?:^|_|\.)(?:returns?|rets?|rt|rtgs?|rewards?_?to_?go|td_targets?|targets?|"
    r"advantages?|g_t|discounted\w*)$",
    re.IGNORECASE,
)
LOOSE = ("squeeze", "flatten", "view", "reshape")


def differences(reading: Training) -> Iterator[Match]:
    """(critic(x) - returns) ** 2, and returns - values, of (N, 1) and (N,)."""
    seen: set[Span] = set()
    for value, span, scope in reading.cached(_everything):
        if span in seen:
            continue
        for part in flatten([value]):
            if part.kind != "other" or part.name != "Sub" or len(part.items) != 2:
                continue
            position = max((n for n in part.calls), default=_position(reading, span, scope))
            one, two = part.items
            where = (scope, position)
            if any(
                _is_column(reading, a, where, DEPTH) and _is_row(reading, b, where, DEPTH)
                for a, b in ((one, two), (two, one))
            ):
                seen.add(span)
                yield Match(span, "one of (N, 1) minus one of (N,) is (N, N): all pairs of samples")
                break


def differ(reading: Training, column: Value, row: Value, where: Place) -> bool:
    """One is the output of a network with one number, the other a list of numbers."""
    return _is_row(reading, row, where, DEPTH) and _is_column(reading, column, where, DEPTH)


def _everything(reading: Training) -> list[tuple[Value, Span, int]]:
    """All expressions, also those that a method is called on: (a - b).pow(2)."""
    bases = [(c.base, c.span, c.scope) for c in reading.calls if c.base is not None]
    return [*bases, *reading.expressions]


def _position(reading: Training, span: Span, scope: int) -> int:
    before = [n for n in reading.scope_calls(scope) if reading.calls[n].span.order <= span.order]
    return max(before, default=len(reading.calls))


def _definitions(reading: Training, name: str, where: Place) -> list[tuple[Value, Place]]:
    found = evaluate.definitions(reading, name, where[0], where[1] + 1, ())
    return [(a.value, (a.scope, a.position - 1)) for a in found if a.scope == where[0]]


def _is_column(reading: Training, value: Value, where: Place, depth: int) -> bool:
    """The output of nn.Linear(..., 1) of a network of this file, as it is."""
    if not depth:
        return False
    if value.kind == "name":
        found = _definitions(reading, value.name, where)
        return bool(found) and all(_is_column(reading, v, p, depth - 1) for v, p in found)
    index = None
    if value.kind == "item" and len(value.items) == 2 and value.items[0].kind == "call":
        index, value = value.items[1].literal, value.items[0]
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    made = _makers(reading, call)
    if made and index is None and all(_is_narrow(reading, m, depth) for m in made):
        return True
    forward = _forward(reading, made)
    return forward is not None and _returns_column(reading, forward, index, depth)


def _makers(reading: Training, call: Call) -> list[Call]:
    """What made the object that is called, also ac.v of an object of a class of this file."""
    found = objects.known_callees(reading, call) if call.args else []
    if found or "." not in call.name:
        return found
    owner, _, name = call.name.rpartition(".")
    holders = objects.makers_at(reading, Value("name", name=owner), call)
    classes = {m.name if m is not None else "" for m in holders}
    if len(classes) != 1 or (owned := classes.pop()) not in reading.modules:
        return []
    key = (f"class {owned}", f"self.{name}")
    held = reading.assigned.get(key, ())
    calls = [reading.calls[a.value.call] for a in held if a.value.kind == "call"]
    return calls if len(held) == 1 else []


def _forward(reading: Training, made: list[Call]) -> int | None:
    names = {m.name for m in made}
    if len(names) == 1 and (name := names.pop()) in reading.modules:
        return objects.method_of(reading, name, "forward")
    return None


def _returns_column(reading: Training, function: int, index: object, depth: int) -> bool:
    each = reading.function(function)
    values: list[bool] = []
    for value, (position, _) in zip(each.returns, each.exits, strict=True):
        if index is not None:
            if value.kind != "list" or not isinstance(index, int) or index >= len(value.items):
                return False
            value = value.items[index]
        values.append(_is_column(reading, value, (function, position), depth - 1))
    return bool(values) and all(values)


def _is_narrow(reading: Training, made: Call, depth: int) -> bool:
    """nn.Linear(n, 1), the last of a Sequential, or what a function makes with its argument 1."""
    if not depth:
        return False
    if made.name == "torch.nn.Linear":
        width = evaluate.argument(reading, made, "out_features", 1)
        return width is not None and evaluate.literals(reading, width, made) == {1}
    if made.name == "torch.nn.Sequential":
        last = (made.args or made.unpacked)[-1:]
        return bool(last) and _is_narrow_last(reading, last[0], made, depth)
    function = reading.target_function(made)
    each = reading.function(function) if function is not None else None
    if function is None or each is None or len(each.returns) != 1:
        return False
    value = each.returns[0]
    inner = reading.call_of(value)
    last = (inner.args or inner.unpacked)[-1:] if inner is not None else ()
    if inner is None or inner.name != "torch.nn.Sequential" or not last:
        return False
    layer = _last_layer(reading, last[0], inner)
    width = evaluate.argument(reading, layer, "out_features", 1) if layer is not None else None
    if layer is None or layer.name != "torch.nn.Linear" or width is None:
        return False
    given = evaluate.argument_of(reading, made, function, width.name) if width.name else width
    return given is not None and given.literal == 1 and not isinstance(given.literal, bool)


def _is_narrow_last(reading: Training, value: Value, made: Call, depth: int) -> bool:
    layer = _last_layer(reading, value, made)
    return layer is not None and _is_narrow(reading, layer, depth - 1)


def _last_layer(reading: Training, value: Value, made: Call) -> Call | None:
    """The last layer of a Sequential's arguments, through a list by its name."""
    for option in evaluate.options(reading, value, made):
        items = option.items if option.kind == "list" else (option,)
        last = items[-1] if items else option
        return reading.call_of(last)
    return None


def _is_row(reading: Training, value: Value, where: Place, depth: int) -> bool:
    """One number per sample for certain: a list of numbers, or returns of a file that squeezes."""
    if not depth:
        return False
    if value.kind == "call":
        return _is_listed(reading, reading.calls[value.call], where, depth)
    if value.kind != "name":
        return False
    found = _definitions(reading, value.name, where)
    if found:
        return all(_is_row(reading, v, p, depth - 1) for v, p in found)
    return False


def _is_listed(reading: Training, call: Call, where: Place, depth: int) -> bool:
    """torch.tensor(numbers), where numbers are appended one by one."""
    if call.method in ("squeeze", "sum", "mean") and len(call.args) == 1:
        return call.args[0].literal == -1 and call.method == "squeeze"
    if call.method in ("to", "cuda", "float", "detach"):
        inner = objects.operand(call)
        return inner is not None and _is_row(reading, inner, where, depth - 1)
    if call.name not in ("torch.tensor", "torch.as_tensor", "torch.FloatTensor") or not call.args:
        return False
    names = [n for n in call.args[0].all_names if n.isidentifier()]
    for name in names:
        starts = [v for v, _ in _definitions(reading, name, where)]
        added = [
            c
            for n in reading.methods("append", "insert")
            if (c := reading.calls[n]).receiver == name and c.scope == call.scope
        ]
        if not starts or not added or any(v.kind != "list" or v.items for v in starts):
            continue
        return all(_is_running(reading, c) for c in added)
    return False


def _is_running(reading: Training, call: Call) -> bool:
    """What is appended is a sum of rewards: running = r + gamma * running."""
    value = call.args[-1] if call.args else Value("other")
    if value.kind != "name":
        return False
    return any(
        a.scope == call.scope
        and a.target == value.name
        and value.name in a.value.names
        and re.search(r"gamma|0\.9|discount", render(reading, a.value), re.IGNORECASE)
        for a in reading.assignments
    )


def unsqueezed(reading: Training) -> Iterator[Match]:
    """critic(x) - returns, where the file squeezes the same critic's output elsewhere."""
    squeezed = {
        reading.calls[c.receiver_call].name for c in reading.named(*LOOSE) if c.receiver_call >= 0
    }
    for value, span, scope in reading.cached(_everything) if squeezed else ():
        for part in flatten([value]):
            pair = part.items if part.kind == "other" and part.name == "Sub" else ()
            if len(pair) != 2:
                continue
            for one, two in (pair, pair[::-1]):
                call = reading.call_of(one)
                if call is None or call.name not in squeezed or two.kind != "name":
                    continue
                position = reading.number(call)
                if GOALS.search(two.name) and _is_column(reading, one, (scope, position), DEPTH):
                    message = f"{call.name}() is (N, 1), and squeezed elsewhere: here it meets "
                    yield Match(span, message + f"{two.name} as (N, N), if that is (N,)", "warn")
