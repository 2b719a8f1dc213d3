"""Headers of numpy's .npy files: an array of objects is a pickle behind its header.

numpy.load(allow_pickle=True) unpickles it without restriction.
"""

from __future__ import annotations

import ast

from doctor.checkpoint.errors import CheckpointError

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 65_536
"""Bytes of a header that is read; numpy itself refuses more than 10,000 from untrusted files."""
BEGINNING = LONGEST_HEADER + 12
"""Bytes of an array's file that hold its whole header."""


def pickle_offset(data: bytes) -> int | None:
    """Where the pickle of an array of objects begins, None where an array holds plain numbers.

    `data` is the beginning of the file, the whole header at least. Raises CheckpointError.
    """
    width = 2 if data[6:7] == b"\x01" else 4
    begin = 8 + width
    length = int.from_bytes(data[8:begin], "little")
    header = data[begin : begin + length]
    if len(data) < begin or len(header) != length or length > LONGEST_HEADER:
        raise CheckpointError("not-inspectable", "has a numpy array whose header is not in it")
    try:
        fields = ast.literal_eval(header.decode("utf-8" if data[6] >= 3 else "latin-1").strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise CheckpointError("not-inspectable", "has a numpy array without a header") from None
    descr = fields.get("descr") if isinstance(fields, dict) else None
    return begin + length if _names_objects(descr) else None


def _names_objects(descr: object) -> bool:
    """Whether a dtype, or the dtype of some field, is that of Python objects."""
    if isinstance(descr, str):
        return "O" in descr or "object" in descr
    if isinstance(descr, list):
        return any(
            isinstance(each, tuple) and _names_objects(each[1]) for each in descr if each[1:]
        )
    return isinstance(descr, tuple) and any(map(_names_objects, descr))
