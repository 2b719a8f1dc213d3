"""A rule on lists that several names hold: what empties one empties all."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

KEEPS = ("append", "appendleft", "add", "put", "push", "insert", "store")
MAKERS = {"list", "dict", "deque", "collections.deque", "set", "collections.defaultdict"}


def shared(reading: Training) -> Iterator[Match]:
    yield from _cleared(reading)
    yield from _multiplied(reading)
    yield from _hooks(reading)


def _cleared(reading: Training) -> Iterator[Match]:
    """memory.append((states, rewards)), and states.clear() for the next episode."""
    clears = [other for other in reading.named("clear") if not other.args]
    emptied = {reading.key(c.receiver, c.scope): c for c in clears if c.receiver}
    for call in reading.named(*KEEPS) if emptied else ():
        store = reading.key(call.receiver, call.scope)
        if not call.receiver or len(call.args) != 1 or store in emptied:
            continue
        given = call.args[0]
        parts = given.items if given.kind in ("list", "dict") else (given,)
        for part in parts:
            key = reading.key(part.name, call.scope) if part.kind == "name" else None
            clear = emptied.get(key) if key is not None else None
            if clear is None or exclusive(clear.arms, call.arms) or not _is_list(reading, key):
                continue
            if _again(call, clear) and not _consumed(reading, store):
                message = (
                    f"{call.receiver} holds {part.name} itself: {part.name}.clear() "
                    "empties it there"
                )
                yield Match(call.span, message)
                return


def _is_list(reading: Training, key: tuple[object, str] | None) -> bool:
    """Its name is given one empty list, once, and no other per round."""
    found = reading.assigned.get(key, ()) if key is not None else ()
    return len(found) == 1 and not found[0].loops and _is_empty(reading, found[0].value)


def _is_empty(reading: Training, value: Value) -> bool:
    if value.kind == "call":
        return reading.calls[value.call].name in MAKERS
    return value.kind in ("list", "dict") and not value.items


def _again(call: Call, clear: Call) -> bool:
    """Both run in one loop, or in a function that is called several times."""
    if set(call.loops) & set(clear.loops):
        return True
    return bool(call.scope and call.scope == clear.scope) or bool(call.loops)


def _consumed(reading: Training, store: tuple[object, str]) -> bool:
    """The store itself is emptied or made anew."""
    return len([a for a in reading.assigned.get(store, ()) if a.loops]) > 0


def _multiplied(reading: Training) -> Iterator[Match]:
    """[[]] * n is n times one list."""
    for each in reading.assignments:
        value = each.value
        if value.kind != "other" or value.name != "Mult" or len(value.items) != 2:
            continue
        lists = [v for v in value.items if v.kind == "list" and len(v.items) == 1]
        if not lists or not _is_empty(reading, lists[0].items[0]):
            continue
        if any(p.target.startswith(f"{each.target}[") and _is_empty(reading, p.value)
               for p in reading.stores):  # fmt: skip
            continue  # an entry gets a list of its own
        if any(_grows(call, each.target) for call in reading.calls) or any(
            a.target.startswith(f"{each.target}[") and a.target.count("[") > 1
            for a in reading.stores
        ):
            yield Match(each.span, f"{each.target} is one list several times: each entry is in all")


def _grows(call: Call, name: str) -> bool:
    return call.name.startswith(f"{name}[") and call.method in (
        "append", "extend", "add", "update", "appendleft", "insert"
    )  # fmt: skip


def _hooks(reading: Training) -> Iterator[Match]:
    """register_forward_hook() in every batch, and nothing removes it."""
    if reading.mentions("remove") or not reading.methods("register_forward_hook"):
        return
    for call in reading.named("register_forward_hook"):
        inner = call.loops[-1] if call.loops else None
        if inner is None or call.arms:
            continue
        if any(n in reading.backward_numbers for n in reading.by_loop.get(inner, ())):
            made = {reading.calls[n].name for n in reading.by_loop[inner]} & reading.modules
            if not made:
                yield Match(call.span, "each iteration adds a hook: outputs and time grow", "warn")
                return


RULES = (
    Rule(
        code="SCR408",
        slug="list-shared",
        title="Each entry of a store is an object of its own",
        severity="fail",
        find=shared,
        why="append() keeps the list itself, and [[]] * n one list n times. What clears or extends "
        "it later does so in all entries: a replay memory holds the last episode only.",
        fires=(
            "memory.append((states, rewards)) and states.clear()",
            "[[]] * n, and an append() to one of them",
            "register_forward_hook() in the loop over batches (a warning)",
        ),
        fix="memory.append((list(states), list(rewards))), or states = [] for each episode; "
        "[[] for _ in range(n)].",
        sources=("python-faq-lists",),
        needs=("clear", "append", "register_forward_hook", "extend", "update"),
    ),
)
