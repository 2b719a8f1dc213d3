"""A pickle of joblib, which has the values of arrays between its opcodes, with what it names."""

from __future__ import annotations

import re

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.inventory import Inventory
from doctor.checkpoint.pickle.joblib_arrays import WRAPPER
from doctor.checkpoint.pickle.reader import read_pickle

PICKLED = re.compile(rb"\x80[\x00-\x05\xff]")
"""How a pickle of protocol 2 or later begins."""
COMPUTED = "(computed)"
"""In place of a module or a name that the pickle computes."""


def of_joblib(data: bytes, file: str) -> tuple[Inventory, tuple[bytes, ...]] | None:
    """What it names as joblib reads it, which has to come to its end, and what only pickle finds in
    the arrays; and files of torch.save inside it. None where it is none of joblib."""
    if WRAPPER.name.encode() not in data:
        return None
    plain, whole = Inventory(file), Inventory(file, pickles=1)
    nested = (*_add(plain, data, arrays=False), *_add(whole, data, arrays=True))
    if WRAPPER.text not in plain.imports:
        return None
    # An array's values make pickle compute a name of objects, which it refuses. To compute one of
    # texts takes a function, which is named.
    own = {each for each in plain.imports if not each.startswith(COMPUTED)}
    if whole.incomplete or not own.issubset(whole.imports):
        whole.add(plain.imports, plain.actions)
    return whole, nested


def _add(inventory: Inventory, data: bytes, *, arrays: bool) -> tuple[bytes, ...]:
    try:
        pickled = read_pickle(data, arrays=arrays)
    except CheckpointError as error:
        inventory.add(error.imports, error.actions)
        inventory.break_off(error.text)
        return ()
    inventory.add(pickled.imports, pickled.actions, pickled.protocol)
    if PICKLED.match(data, pickled.end):
        inventory.break_off("has further pickles behind one of joblib")
    return pickled.nested
