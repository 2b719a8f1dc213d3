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
ESCAPE = b"\\"
"""Without it a pickle has every name as it is."""
UNCERTAIN = "has arrays of joblib, and behind their values anything can run"
"""Where the values end, what the pickle makes decides, also by calls that are not followed here:
what lies behind is read, and never known to be all."""


def of_joblib(data: bytes, file: str) -> tuple[Inventory, tuple[bytes, ...]] | None:
    """What it names, read as joblib does and as pickle does, and files of torch.save inside it.
    None where it names no array of joblib."""
    if WRAPPER.name.encode() not in data and ESCAPE not in data:
        return None
    plain = Inventory(file)
    nested = _add(plain, data, arrays=False)
    if not any(WRAPPER.name in each for each in plain.imports):
        return None
    whole = Inventory(file, pickles=1)
    nested = (*nested, *_add(whole, data, arrays=True))
    # An array's values make pickle compute a name of objects, which it refuses. To compute one of
    # texts takes a function, which is named.
    own = {each for each in plain.imports if not each.startswith(COMPUTED)}
    if whole.incomplete or not own.issubset(whole.imports):
        whole.add(plain.imports, plain.actions)
    whole.break_off(UNCERTAIN)
    return whole, nested


def _add(inventory: Inventory, data: bytes, *, arrays: bool) -> tuple[bytes, ...]:
    try:
        pickled = read_pickle(data, arrays=arrays)
    except CheckpointError as error:
        inventory.add(error.imports, error.actions)
        inventory.break_off(error.text)
        return ()
    inventory.add(pickled.imports, pickled.actions, pickled.protocol)
    return pickled.nested
