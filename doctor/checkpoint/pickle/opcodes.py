"""Opcodes of pickles that name globals and make objects, and the table of all."""

from __future__ import annotations

import _compat_pickle

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.pickle import container_opcodes as containers
from doctor.checkpoint.pickle import value_opcodes as values
from doctor.checkpoint.pickle.joblib_arrays import WRAPPER, pass_array
from doctor.checkpoint.pickle.nodes import SET, Global, ObjectNode, Persistent
from doctor.checkpoint.pickle.value_opcodes import (
    LONGEST,
    LONGEST_NAME,
    Handler,
    Machine,
    line,
    text,
)

BYTES_MADE = Global("_codecs", "encode")

STORAGE_MADE = Global("torch.storage", "_load_from_bytes")

ATTRIBUTE = Global("builtins", "getattr")

PLAIN = (str, int, float, bool, bytes, type(None))

READONLY = 0x98

OUTSIDE = {
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x97: "NEXT_BUFFER",
    READONLY: "READONLY_BUFFER",
}


def _outside(machine: Machine, code: int) -> None:
    """Go on behind an opcode that refers to what is not in the file."""
    machine.at += {0x82: 1, 0x83: 2, 0x84: 4}.get(code, 0)
    if code != READONLY:
        machine.stack.append(ObjectNode(None))


def _unknown(machine: Machine) -> None:
    code = machine.data[machine.at - 1]
    if code in OUTSIDE and machine.lenient:
        _outside(machine, code)
        return
    if code in OUTSIDE:
        raise CheckpointError("not-inspectable", f"has a pickle with the opcode {OUTSIDE[code]}")
    raise CheckpointError(
        "damaged", f"has a pickle with the byte 0x{code:02x} where an opcode has to be"
    )


# Globals and objects: names and nodes


def _named(machine: Machine, module: str, name: str) -> Global:
    if machine.lenient:
        module, name = module[:LONGEST_NAME], name[:LONGEST_NAME]
    if len(module) > LONGEST_NAME or len(name) > LONGEST_NAME:
        text = shown(f"{module[:100]}.{name[:100]}")
        raise CheckpointError("not-inspectable", f"has a pickle with an overlong global {text}")
    if machine.protocol < 3:
        module, name = _renamed(module, name)
    global_ = Global(module, name)
    return machine.imports.setdefault(global_, global_)


def _renamed(module: str, name: str) -> tuple[str, str]:
    """A name of Python 2 as pickle translates it below protocol 3."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        return _compat_pickle.NAME_MAPPING[module, name]
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


def _line_global(machine: Machine) -> Global:
    limit = LONGEST if machine.lenient else 4 * LONGEST_NAME
    module = text(line(machine, limit))
    return _named(machine, module, text(line(machine, limit)))


def _global(machine: Machine) -> None:
    machine.stack.append(_line_global(machine))


def _stack_global(machine: Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    if machine.lenient and ObjectNode in (type(name), type(module)):
        machine.tricks["it computes the name of a global"] = None
        module = module if type(module) is str else "(computed)"
        name = name if type(name) is str else "(computed)"
    if type(name) is not str or type(module) is not str:
        raise CheckpointError("damaged", "has a pickle with a global whose name is no text")
    machine.stack.append(_named(machine, module, name))


def _make(machine: Machine, function: object, args: object) -> None:
    if type(args) is not tuple:
        if machine.lenient:
            machine.stack.append(ObjectNode(function, (args,)))
            return
        raise CheckpointError("damaged", "has a pickle that calls something with what is no tuple")
    if function == BYTES_MADE and len(args) == 2 and type(args[0]) is str and args[1] == "latin1":
        machine.stack.append(args[0].encode("latin1"))  # as protocol 2 writes bytes
        return
    if function == STORAGE_MADE and args and type(args[0]) is bytes:
        machine.nested.append(args[0])
    if function == ATTRIBUTE and len(args) == 2 and _attribute(machine, *args):
        return
    machine.stack.append(ObjectNode(function, args))


def _attribute(machine: Machine, owner: object, name: object) -> bool:
    """getattr of a global is the global of the longer name; True where it is that."""
    if type(owner) is Global and type(name) is str:
        machine.stack.append(_named(machine, owner.module, f"{owner.name}.{name}"))
        return True
    if type(name) is ObjectNode:
        machine.tricks["it computes the name of an attribute"] = None
    return False


def _reduce(machine: Machine) -> None:
    args, function = machine.stack.pop(), machine.stack.pop()
    plainly = type(args) is tuple and len(args) == 1 and type(args[0]) in PLAIN
    (machine.valued if plainly else machine.called)[id(function)] = function
    _make(machine, function, args)


def _newobj(machine: Machine) -> None:
    args, class_ = machine.stack.pop(), machine.stack.pop()
    if args != ():
        machine.made[id(class_)] = class_
    _make(machine, class_, args)


def _newobj_ex(machine: Machine) -> None:
    kwargs, args, function = machine.stack.pop(), machine.stack.pop(), machine.stack.pop()
    machine.made[id(function)] = function
    if machine.lenient:
        machine.stack.append(ObjectNode(function, (args, kwargs)))
        return
    if type(args) is not tuple or type(kwargs) is not dict:
        raise CheckpointError(
            "damaged", "has a pickle that makes an object with what are no arguments"
        )
    machine.stack.append(ObjectNode(function, args, kwargs=kwargs))


def _inst(machine: Machine) -> None:
    function = _line_global(machine)
    args = containers.marked(machine)
    _calls(machine, function, args)
    machine.stack.append(ObjectNode(function, tuple(args)))


def _calls(machine: Machine, function: object, args: list[object]) -> None:
    """Of INST and OBJ: without arguments they make an instance of a class of Python 2."""
    (machine.called if args else machine.made)[id(function)] = function


def _obj(machine: Machine) -> None:
    function, *args = containers.marked(machine)
    _calls(machine, function, args)
    machine.stack.append(ObjectNode(function, tuple(args)))


def _build(machine: Machine) -> None:
    state = machine.stack.pop()
    target = machine.stack[-1]
    if machine.lenient:
        if type(target) is Global:
            machine.tricks[f"it changes {shown(target.text, 100)}"] = None
        elif type(target) is ObjectNode and target.name == "functools.partial":
            target.state = state
        return
    if type(target) is not ObjectNode or target.state is not None:
        text = "has a pickle with the opcode BUILD on what is no object, or for the second time"
        raise CheckpointError("not-inspectable", text)
    target.state = state
    if machine.arrays and target.function == WRAPPER:
        pass_array(machine, target)


def _persid(machine: Machine) -> None:
    machine.stack.append(text(line(machine, 4 * LONGEST_NAME)))
    _binpersid(machine)


def _binpersid(machine: Machine) -> None:
    reference = machine.stack[-1] = Persistent(machine.stack[-1])
    machine.persistent.append(reference)


def _constant(value: object) -> Handler:
    return lambda machine: machine.stack.append(value)


STOP = ord(".")

PUSH, LIST, MEMO, TEXT, OBJECT = 32, 88, 120, 64, 160

OPCODES: dict[int, tuple[Handler, int]] = {
    0x80: (values.protocol, PUSH),
    0x95: (values.frame, PUSH),
    0x8C: (values.short_binunicode, TEXT),
    ord("X"): (values.binunicode, TEXT),
    0x8D: (values.binunicode8, TEXT),
    ord("V"): (values.unicode, TEXT),
    ord("C"): (values.short_binbytes, TEXT),
    ord("B"): (values.binbytes, TEXT),
    0x8E: (values.binbytes8, TEXT),
    0x96: (values.binbytes8, TEXT),
    ord("U"): (values.short_binstring, TEXT),
    ord("T"): (values.binstring, TEXT),
    ord("S"): (values.string, TEXT),
    ord("J"): (values.binint, PUSH),
    ord("K"): (values.binint1, PUSH),
    ord("M"): (values.binint2, PUSH),
    ord("G"): (values.binfloat, PUSH),
    0x8A: (values.long1, TEXT),
    0x8B: (values.long4, TEXT),
    ord("I"): (values.int_, TEXT),
    ord("L"): (values.long_, TEXT),
    ord("F"): (values.float_, TEXT),
    ord("N"): (_constant(None), PUSH),
    0x88: (_constant(True), PUSH),
    0x89: (_constant(False), PUSH),
    ord(")"): (_constant(()), PUSH),
    ord("]"): (lambda machine: machine.stack.append([]), LIST),
    ord("}"): (lambda machine: machine.stack.append({}), LIST),
    0x8F: (lambda machine: machine.stack.append(ObjectNode(SET, appended=[])), OBJECT),
    0x94: (values.memoize, MEMO),
    ord("q"): (values.binput, PUSH),
    ord("r"): (values.long_binput, MEMO),
    ord("p"): (values.put, MEMO),
    ord("h"): (values.binget, PUSH),
    ord("j"): (values.long_binget, PUSH),
    ord("g"): (values.get, PUSH),
    ord("("): (containers.mark, LIST),
    ord("0"): (containers.pop, PUSH),
    ord("1"): (containers.pop_mark, PUSH),
    ord("2"): (containers.dup, PUSH),
    ord("t"): (containers.tuple_, LIST),
    0x85: (containers.tuple1, LIST),
    0x86: (containers.tuple2, LIST),
    0x87: (containers.tuple3, LIST),
    ord("l"): (containers.list_, PUSH),
    ord("d"): (containers.dict_, LIST),
    0x91: (containers.frozenset_, OBJECT),
    ord("a"): (containers.append, PUSH),
    ord("e"): (containers.appends, PUSH),
    0x90: (containers.appends, PUSH),
    ord("s"): (containers.setitem, PUSH),
    ord("u"): (containers.setitems, PUSH),
    ord("c"): (_global, TEXT),
    0x93: (_stack_global, TEXT),
    ord("R"): (_reduce, OBJECT),
    0x81: (_newobj, OBJECT),
    0x92: (_newobj_ex, OBJECT),
    ord("i"): (_inst, OBJECT),
    ord("o"): (_obj, OBJECT),
    ord("b"): (_build, PUSH),
    ord("P"): (_persid, OBJECT),
    ord("Q"): (_binpersid, OBJECT),
}
"""What each opcode does, and the bytes of memory that it may take beyond those of its argument."""

HANDLERS: list[Handler] = [OPCODES.get(code, (_unknown, 0))[0] for code in range(256)]
COSTS = [OPCODES.get(code, (_unknown, 0))[1] for code in range(256)]
