"""Opcodes of pickles that mark the stack, and make and fill containers."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.pickle.nodes import FROZENSET, Global, ObjectNode, hashable
from doctor.checkpoint.pickle.value_opcodes import Machine


def mark(machine: Machine) -> None:
    machine.below.append(machine.stack)
    machine.stack = []


def marked(machine: Machine) -> list[object]:
    """What lies above the last mark."""
    items = machine.stack
    machine.stack = machine.below.pop()
    return items


def pop(machine: Machine) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.stack = machine.below.pop()


def pop_mark(machine: Machine) -> None:
    marked(machine)


def dup(machine: Machine) -> None:
    machine.stack.append(machine.stack[-1])


def tuple_(machine: Machine) -> None:
    items = tuple(marked(machine))
    machine.stack.append(items)


def tuple1(machine: Machine) -> None:
    machine.stack[-1] = (machine.stack[-1],)


def tuple2(machine: Machine) -> None:
    stack = machine.stack
    stack[-2:] = [(stack[-2], stack[-1])]


def tuple3(machine: Machine) -> None:
    stack = machine.stack
    stack[-3:] = [(stack[-3], stack[-2], stack[-1])]


def list_(machine: Machine) -> None:
    items = marked(machine)
    machine.stack.append(items)


def dict_(machine: Machine) -> None:
    items = marked(machine)
    machine.stack.append({})
    store(machine, items)


def frozenset_(machine: Machine) -> None:
    items = marked(machine)
    machine.stack.append(ObjectNode(FROZENSET, appended=items))


def append(machine: Machine) -> None:
    value = machine.stack.pop()
    extend(machine, [value])


def appends(machine: Machine) -> None:
    items = marked(machine)
    extend(machine, items)


def extend(machine: Machine, items: list[object]) -> None:
    target = machine.stack[-1]
    if type(target) is list:
        target.extend(items)
    elif type(target) is ObjectNode:
        if target.appended is None:
            target.appended = []
        target.appended.extend(items)
    elif machine.lenient:
        _changes_global(machine, target)
    else:
        raise CheckpointError("damaged", "has a pickle that appends to what is no list")


def setitem(machine: Machine) -> None:
    items = machine.stack[-2:]
    del machine.stack[-2:]
    store(machine, items)


def setitems(machine: Machine) -> None:
    items = marked(machine)
    store(machine, items)


def store(machine: Machine, items: list[object]) -> None:
    target = machine.stack[-1]
    if type(target) is ObjectNode:
        if target.items is None:
            target.items = {}
        target = target.items
    if type(target) is not dict or len(items) % 2:
        if machine.lenient:
            _changes_global(machine, target)
            return
        raise CheckpointError("damaged", "has a pickle that sets an item of what is no dictionary")
    pairs = iter(items)
    for key, value in zip(pairs, pairs, strict=True):
        target[key if type(key) is str else hashable(key)] = value


def _changes_global(machine: Machine, target: object) -> None:
    """Remember a pickle that puts something into what it imported, which no saver writes."""
    if type(target) is Global:
        machine.tricks[f"it changes {shown(target.text, 100)}"] = None
