"""Arrays that joblib writes into a pickle, behind the object that describes them.

`pickle.load` takes their bytes for opcodes, `joblib.load` for values: who wants to know what a file
may run reads it both ways.
"""

from __future__ import annotations

import math
import re

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.pickle.nodes import Global, ObjectNode, attributes
from doctor.checkpoint.pickle.value_opcodes import Machine

WRAPPER = Global("joblib.numpy_pickle", "NumpyArrayWrapper")
DTYPE = Global("numpy", "dtype")
NUMBERS = re.compile(r"([biufcmMSUV])(\d{1,6})")
"""numpy's name of a dtype, kind and size; U counts characters of four bytes."""
OBJECTS, OF_OBJECTS = "O8", 63
"""The name of this dtype, and the flags in its state."""
DIMENSIONS, LONGEST = 64, 1 << 48
"""Of an array: numpy has no more, no machine a longer one."""
UNKNOWN = "has an array of joblib in a form that is not known"


def pass_array(machine: Machine, node: ObjectNode) -> None:
    """Go on behind the values; of an array of objects these are a pickle of its own, which plain
    pickle reads."""
    described = attributes(node)
    shape = described.get("shape")
    lengths = shape if type(shape) is tuple and len(shape) <= DIMENSIONS else (None,)
    size = _item_size(described.get("dtype"))
    if machine.at < machine.frame_end or size is None:
        raise CheckpointError("not-inspectable", UNKNOWN)
    if not size:
        machine.outer.append((machine.memo, machine.protocol, machine.stack, machine.below))
        machine.memo, machine.stack, machine.below, machine.arrays = {}, [], [], False
        return
    if any(type(each) is not int or not 0 <= each < LONGEST for each in lengths):
        raise CheckpointError("not-inspectable", UNKNOWN)
    if described.get("numpy_array_alignment_bytes") is not None:
        machine.at += 1 + machine.data[machine.at]
    machine.at += math.prod(lengths) * size
    if machine.at > len(machine.data):
        raise CheckpointError("damaged", "has an array of joblib that ends in its middle")


def _item_size(dtype: object) -> int | None:
    """Bytes of one value, 0 of objects; None where name and state do not say the same size."""
    if type(dtype) is not ObjectNode or dtype.function != DTYPE or not dtype.args:
        return None
    code, state = dtype.args[0], dtype.state
    form = NUMBERS.fullmatch(code) if type(code) is str else None
    if state is not None and (type(state) is not tuple or len(state) not in (8, 9)):
        return None
    stated, flags = (state[5], state[7]) if state else (-1, OF_OBJECTS if code == OBJECTS else 0)
    if code == OBJECTS and stated == -1 and flags == OF_OBJECTS:
        return 0
    size = int(form[2]) * (4 if form[1] == "U" else 1) if form else None
    has_objects = type(flags) is not int or flags & 1
    return None if has_objects or stated not in (-1, size) else size
