"""Where the values of a matrix that is not the baseline's come from: another tensor of it, or the
same one transposed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from doctor.checkpoint.analysis.attribution import plain
from doctor.checkpoint.analysis.equivalence import can_be_held, same_values, values_of
from doctor.checkpoint.analysis.exchanged import MOST, find_exchanged
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records import TRANSPOSED
from doctor.checkpoint.tensors import Tensor


def find_origins(
    now: Directory, unlike: Sequence[Tensor], then: Directory, earlier: Mapping[str, Tensor]
) -> dict[str, str]:
    """Name of an unlike matrix -> the tensor of the baseline whose values it has, or TRANSPOSED."""
    found = find_exchanged(now, unlike, then, earlier.values()) if unlike else {}
    with OpenFiles(now) as files, OpenFiles(then) as other_files:
        for tensor in unlike[:MOST]:
            other = earlier[plain(tensor.name)]
            is_square = len(tensor.shape) == 2 and tensor.shape[0] == tensor.shape[1]
            if tensor.name in found or not is_square or not can_be_held(tensor, other):
                continue
            with contextlib.suppress(CheckpointError):
                if same_values(values_of(files, tensor).T, values_of(other_files, other)):
                    found[tensor.name] = TRANSPOSED
    return {name[:500]: origin[:500] for name, origin in found.items()}
