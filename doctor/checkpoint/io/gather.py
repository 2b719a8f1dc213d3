"""Bytes of a tensor that lies in several ranges, as if they were one."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Buffer, read_into
from doctor.checkpoint.io.open_files import OpenFiles


def fill(
    files: OpenFiles, parts: Sequence[tuple[str, int, int]], buffer: Buffer, offset: int
) -> None:
    """The bytes from `offset` on of the ranges (file, begin, end), end to end.

    Raises CheckpointError where they end before the buffer is full.
    """
    view, passed, done = memoryview(buffer), 0, 0
    for file, begin, end in parts:
        skip = offset + done - passed
        if done < len(view) and skip < end - begin:
            take = min(end - begin - skip, len(view) - done)
            if read_into(files.source(file), view[done : done + take], begin + skip) != take:
                raise CheckpointError("damaged", "a file ended before its tensors did")
            done += take
        passed += end - begin
    if done != len(view):
        raise CheckpointError("damaged", "a tensor has fewer bytes than its shape needs")
