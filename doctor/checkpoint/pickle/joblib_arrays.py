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
NUMBERS = re.compile(r"([biufcmMSU])(\d{1,6})")
"""numpy's name of a dtype, kind and size; U counts characters of four bytes."""
OBJECTS = "O8"
DIMENSIONS, LONGEST = 64, 1 << 48
"""Of an array: numpy has no more, no machine a longer one."""
UNKNOWN = "has an array of joblib in a form that is not known"


def pass_array(machine: Machine, node: ObjectNode) -> None:
    """Go on behind the values; of an array of objects these are a pickle of its own."""
    described = attributes(node)
    dtype, shape = described.get("dtype"), described.get("shape")
    code = dtype.args[0] if type(dtype) is ObjectNode and dtype.args else None
    if code == OBJECTS:
        machine.outer.append((machine.memo, machine.protocol))
        machine.memo = {}
        return
    form = NUMBERS.fullmatch(code) if type(code) is str else None
    lengths = shape if type(shape) is tuple and len(shape) <= DIMENSIONS else (None,)
    if form is None or any(type(each) is not int or not 0 <= each < LONGEST for each in lengths):
        raise CheckpointError("not-inspectable", UNKNOWN)
    if described.get("numpy_array_alignment_bytes") is not None:
        machine.at += 1 + machine.data[machine.at]
    machine.at += math.prod(lengths) * int(form[2]) * (4 if form[1] == "U" else 1)
    if machine.at > len(machine.data):
        raise CheckpointError("damaged", "has an array of joblib that ends in its middle")
