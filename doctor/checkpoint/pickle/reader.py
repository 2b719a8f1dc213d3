"""What a pickle describes, read opcode by opcode: nothing is imported, called or compared.

`read_pickle` gives the nodes of nodes.py. Every opcode of protocols 0 to 5 that a file can hold by
itself is understood; EXT1, EXT2, EXT4, NEXT_BUFFER and READONLY_BUFFER refer to what is not in it.
"""

from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import NoReturn

from doctor.checkpoint.actions import Actions
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.pickle.nodes import (
    Global,
    Key,
    ObjectNode,
    Persistent,
    Pickled,
    gc_paused,
    mapping,
)
from doctor.checkpoint.pickle.opcodes import COSTS, HANDLERS, STOP
from doctor.checkpoint.pickle.value_opcodes import Machine

__all__ = ["Global", "Key", "ObjectNode", "Persistent", "Pickled", "mapping", "read_pickle"]

STANDARD = sys.stdlib_module_names

LARGEST = 64 * 1024 * 1024
"""Bytes of a pickle that is read: a model's takes some 120 per tensor."""

ALLOWANCE = 48 * 1024 * 1024
"""Bytes of memory that any pickle may take, as COSTS estimates them."""

PER_BYTE = 32
"""And what each of its bytes may take beyond: those of a model take 22."""

MOST = 1024 * 1024 * 1024
"""Bytes of memory that no pickle may take."""

TOO_MUCH = "has a pickle that makes more than a checkpoint does"


def read_pickle(data: bytes, at: int = 0, *, arrays: bool = False) -> Pickled:
    """The pickle at `at`; `arrays`: as joblib reads it, not as pickle does.

    Raises CheckpointError: damaged, or not-inspectable with the opcode named. Its `imports` are the
    globals that an unpickler may ask for before it stops.
    """
    if len(data) - at > LARGEST:
        text = f"has a pickle of {len(data) - at:,} bytes, over the {LARGEST:,} that are read"
        raise CheckpointError("not-inspectable", text)
    machine = Machine(data, at)
    machine.arrays = arrays
    try:
        return _read(machine)
    except CheckpointError as error:
        names, ends = dict.fromkeys(_imports(machine)), dict[int, None]()
        error.actions = _actions(machine)
        machine.release()
        if error.text != TOO_MUCH:  # else the same opcodes would take the same memory again
            error.actions |= _read_on(data, at, names, ends)
        error.ends, error.imports = tuple(ends), tuple(names)
        raise


def _read_on(data: bytes, at: int, names: dict[str, None], ends: dict[int, None]) -> Actions:
    """What an unpickler may do where this reader stops; adds the imports and possible ends."""
    actions = Actions()
    for cuts in (True, False):
        machine = Machine(data, at, lenient=True, cuts=cuts)
        with contextlib.suppress(CheckpointError):
            ends[_read(machine).end] = None
        names.update(dict.fromkeys(_imports(machine)))
        actions |= _actions(machine)
        machine.release()
        if not machine.frame_end:  # without frames, `cuts` changes nothing
            break
    return actions


def _actions(machine: Machine) -> Actions:
    """What the pickle does, with calls of what it made itself resolved as far as they can be."""
    called, made, tricks = set[str](), set[str](), set(machine.tricks)
    for function in machine.called.values():
        if type(function) is Global:
            called.add(function.text)
        elif type(function) is ObjectNode:
            target = _wrapped(function)
            if type(target) is Global and target.name.endswith(".__new__"):
                made.add(target.text.removesuffix(".__new__"))  # as protocol 2 writes NEWOBJ_EX
            else:
                tricks.add("it calls what it made itself")
    for function in machine.valued.values():
        if type(function) is ObjectNode:
            tricks.add("it calls what it made itself")
    return Actions(
        frozenset(called),
        frozenset(_texts(machine.valued.values())),
        frozenset(made.union(_texts(machine.made.values()))),
        frozenset(tricks),
    )


def _wrapped(node: ObjectNode) -> object:
    """The function in a functools.partial; None for anything else."""
    if node.name != "functools.partial":
        return None
    parts = node.state if type(node.state) is tuple and node.state else node.args
    return parts[0] if parts else None


def _texts(functions: Iterable[object]) -> Iterator[str]:
    """The names of globals; one through a module of Python that another imports is its own too."""
    for function in functions:
        if type(function) is Global:
            yield function.text
            if "." in function.name and function.name.partition(".")[0] in STANDARD:
                yield function.name


def _imports(machine: Machine) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_texts(machine.imports)))


def _read(machine: Machine) -> Pickled:
    """Raises CheckpointError."""
    data, at = machine.data, machine.at
    try:
        with gc_paused():
            _run(machine, min(ALLOWANCE + PER_BYTE * (len(data) - at), MOST))
    except (IndexError, KeyError, struct.error):
        _malformed(machine)
    except UnicodeError:
        raise CheckpointError("damaged", "has a pickle with text that is not UTF-8") from None
    except (TypeError, ValueError, OverflowError):
        raise CheckpointError("damaged", "has a malformed pickle") from None
    except MemoryError:
        raise CheckpointError(
            "not-inspectable", "has a pickle that takes too much memory"
        ) from None
    if not machine.stack:
        raise CheckpointError("damaged", "has a pickle that describes nothing")
    if machine.at < machine.frame_end:  # what follows may be read, or dropped with the frame
        if not machine.lenient:
            raise CheckpointError("not-inspectable", "has a pickle that ends before its frame")
        machine.at = machine.frame_end if machine.cuts else machine.at
    return Pickled(
        machine.stack[-1],
        _imports(machine),
        machine.at,
        tuple(machine.persistent),
        machine.protocol,
        tuple(machine.nested),
        _actions(machine),
    )


def _run(machine: Machine, budget: int) -> None:
    """Every opcode up to STOP. `left` is the memory that it may take."""
    data, handlers, costs = machine.data, HANDLERS, COSTS
    while True:
        while (code := data[machine.at]) != STOP:
            machine.at += 1
            budget -= costs[code]
            if budget < 0:
                raise CheckpointError("not-inspectable", TOO_MUCH)
            handlers[code](machine)
        machine.at += 1
        if not machine.outer:
            return
        if machine.at < machine.frame_end:
            raise CheckpointError("not-inspectable", "has a pickle that ends before its frame")
        machine.memo, machine.protocol, machine.stack, machine.below = machine.outer.pop()
        machine.arrays = True


def _malformed(machine: Machine) -> NoReturn:
    if machine.at >= len(machine.data):
        raise CheckpointError("damaged", "has a pickle that ends in its middle")
    text = "has a malformed pickle, which takes from its stack or memo what is not there"
    raise CheckpointError("damaged", text)
