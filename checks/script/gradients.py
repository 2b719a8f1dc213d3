"""What a value passes gradients on to: the names that it is computed of, short of a detach()."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.reading import Reading
from doctor.facts.script import Call, Value

ENDS = {"detach", "item", "tolist", "numpy", "argmax", "next", "iter", "len", "size"}
"""Calls whose result has no gradient."""


def names(reading: Reading, value: Value) -> Iterator[str]:
    """Names within an expression that get a gradient; none of a test, an index or x.data."""
    waiting = [value]
    while waiting:
        reading.step()
        each = waiting.pop()
        if each.kind == "call":
            call = reading.calls[each.call]
            if call.method not in ENDS and not _is_data(call.receiver):
                yield from {call.name, call.receiver} - {""}
                waiting += _parts(call)
        elif each.kind == "item":
            waiting += each.items[:1]
        elif each.items:
            waiting += each.items
        elif each.kind != "test":
            plain = not any(other.method in ENDS for other in reading.inside(each))
            found = [each.name] if each.kind == "name" else each.names if plain else ()
            yield from (name for name in found if not _is_data(name))


def _parts(call: Call) -> Iterator[Value]:
    """What a call computes its result of."""
    if call.receiver_call >= 0:
        yield Value("call", call=call.receiver_call)
    elif call.base is not None:
        yield call.base
    yield from (*call.values, *call.unpacked)


def _is_data(name: str) -> bool:
    return "data" in name.split(".")[1:]


def sources(reading: Reading, call: Call, number: int, name: str = "") -> set[tuple[object, str]]:
    """All names that the loss of a backward() is computed of, through assignments."""
    found: set[tuple[object, str]] = set()
    waiting, visited = [(name or call.receiver, number)], set()
    while waiting:
        part, position = waiting.pop()
        if (part, position) in visited:
            continue
        visited.add((part, position))
        key = reading.key(part, call.scope)
        found.add(key)
        for each in evaluate.definitions(reading, part, call.scope, position, call.arms):
            reading.step()
            waiting += [(inner, each.position) for inner in names(reading, each.value)]
        if not reading.assigned.get(key) and "." in part:
            waiting.append((part.rpartition(".")[0], position))
    return found
