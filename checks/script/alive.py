"""Whether what trains a network is still at work: an optimizer of a function that ended is not."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import WRAPPERS, lineage_of_value
from doctor.checks.script.reading import flatten
from doctor.checks.script.training import Trained, Training
from doctor.facts.script import Assignment, Call, Value

Key = tuple[object, str]
IDLE = (
    "state_dict",
    "zero_grad",
    "save",
    "log",
    "evaluate",
    "predict",
    "print",
    "len",
    "get_last_lr",
)
"""Beginnings of names of what trains nothing."""
KEEPERS = {"append", "add", "extend", "register", "update", "insert"}
"""Methods of a container that keep what they are given."""


def trains_after(reading: Training, names: Collection[Key], place: Call | Assignment) -> bool:
    """Whether an optimizer or Trainer of an object, by its names, works after a place.

    True, too, where this file does not show what trains it.
    """
    own = [each for each in reading.trained if not each.lineage.names.isdisjoint(names)]
    return not own or any(_trains(reading, each, names, place) for each in own)


def steps_after(reading: Training, made: Call, place: Call | Assignment) -> bool:
    """Whether the optimizer that a call of the same function makes is used after a place.

    Its function has ended, for a call that was joined into its caller, where nothing names it
    any more. What leaves the function, or is used nowhere, is at work for all that is known.
    """
    keys = _holders(reading, made)
    if not keys or leaves_function(reading, made, keys):
        return True
    uses = [*_uses(reading, made, keys)]
    return not uses or any(_is_after(reading, n, made, place) for n in uses)


def _trains(
    reading: Training, each: Trained, names: Collection[Key], place: Call | Assignment
) -> bool:
    made = reading.calls[each.sink]
    if made.scope == place.scope:
        return steps_after(reading, made, place)
    keys = _holders(reading, made)
    owner = reading.key(each.name, made.scope)[0] if each.name else None
    if not keys or leaves_function(reading, made, keys) or owner != made.scope:
        return True
    sites = reading.call_sites.get(made.scope, ())
    if not sites or any(reading.calls[n].scope != place.scope for n in sites):
        return True
    later = [n for n in sites if _is_after(reading, n, None, place)]
    return any(_receives(reading, n, made.scope, each.name, names) for n in later)


def _receives(
    reading: Training, site: int, function: int, name: str, names: Collection[Key]
) -> bool:
    """A call gives the object to the parameter of which its function makes an optimizer."""
    if not evaluate.is_parameter(reading, function, name):
        return False
    call = reading.calls[site]
    value = evaluate.argument_of(reading, call, function, name)
    if value is None:
        return True
    lineage = lineage_of_value(reading, value, call.scope, site)
    return not lineage.complete or not lineage.names.isdisjoint(names)


def _is_after(reading: Training, n: int, made: Call | None, place: Call | Assignment) -> bool:
    """It runs later, or again in a loop around both that does not make the optimizer anew."""
    call = reading.calls[n]
    at = reading.number(place) if isinstance(place, Call) else place.position
    again = set(call.loops) & set(place.loops) - set(made.loops if made is not None else ())
    return n >= at or bool(again)


def _holders(reading: Training, made: Call) -> set[Key]:
    """The names of an optimizer, and of what keeps it: a list, a Trainer, an accelerator's."""
    keys = {reading.key(name, made.scope) for name in made.targets}
    for _ in range(4):
        found = {*_assigned(reading, keys), *_kept(reading, keys)} - keys if keys else set()
        if not found:
            break
        keys |= found
    return keys


def _assigned(reading: Training, keys: set[Key]) -> Iterator[Key]:
    for each in reading.stores:
        if _names(reading, each.value, each.scope, keys):
            yield reading.key(each.target.partition("[")[0], each.scope)
    for loop in reading.loops:
        if loop.iterable is not None and any(
            reading.key(name.partition("[")[0], loop.scope) in keys
            for name in loop.iterable.all_names
            if name
        ):
            yield from (reading.key(name, loop.scope) for name in loop.targets)


def _kept(reading: Training, keys: set[Key]) -> Iterator[Key]:
    reading.step(len(reading.calls))
    for call in reading.calls:
        if not _given(reading, call, keys):
            continue
        if call.method[:1].isupper() or call.method in WRAPPERS or call.name == "dict":
            yield from (reading.key(name, call.scope) for name in _results(reading, call, keys))
        elif call.receiver and call.method in KEEPERS:
            yield reading.key(call.receiver, call.scope)


def _results(reading: Training, call: Call, keys: set[Key]) -> tuple[str, ...]:
    """Of model, optimizer = prepare(model, optimizer) what stands at the same place."""
    if len(call.targets) != len(call.args) or call.method not in WRAPPERS:
        return call.targets
    pairs = zip(call.targets, call.args, strict=True)
    return tuple(name for name, value in pairs if _names(reading, value, call.scope, keys))


def _names(reading: Training, value: Value, scope: int, keys: set[Key]) -> bool:
    """The object itself is in a value, in a list or a function of it, too."""
    return any(
        part.kind == "name" and part.name and reading.key(part.name, scope) in keys
        for part in flatten((value,))
    )


def _given(reading: Training, call: Call, keys: set[Key]) -> bool:
    return any(_names(reading, v, call.scope, keys) for v in (*call.values, *call.unpacked))


def leaves_function(reading: Training, made: Call, keys: set[Key]) -> bool:
    """It is an attribute, is returned, or another function names it."""
    if any("." in name or owner != made.scope for owner, name in keys):
        return True
    returned = reading.function(made.scope).returns
    if any(_names(reading, value, made.scope, keys) for value in returned):
        return True
    return any(reading.calls[n].scope != made.scope for n in _uses(reading, made, keys))


def _uses(reading: Training, made: Call, keys: set[Key]) -> Iterator[int]:
    """Calls of its methods, and calls that receive it."""
    reading.step(len(reading.calls))
    for n, call in enumerate(reading.calls):
        if call is made or call.method.startswith(IDLE):
            continue
        owner = call.receiver.partition("[")[0]
        called = bool(owner) and reading.key(owner, call.scope) in keys
        if called or _given(reading, call, keys):
            yield n
