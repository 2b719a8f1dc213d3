"""DeepSpeed's `ds_report`: torch's version and CUDA, and whether torch finds a GPU."""

from __future__ import annotations

import re

from doctor.pasted.reading import Reading, cuda_of

ROW = re.compile(r"\s*(torch version|torch cuda version|torch hip version)\s?\.{3,60}\s*(\S{1,60})")
HEAD = "DeepSpeed C++/CUDA extension op report"
NO_RUNTIME = "No CUDA runtime is found, using CUDA_HOME"
"""What torch.utils.cpp_extension prints where torch.cuda.is_available() is False."""


def read(lines: list[str]) -> Reading:
    """The first report in the lines."""
    values: dict[str, str] = {}
    for line in lines:
        if match := ROW.match(line):
            values.setdefault(match[1], match[2])
    if "torch version" not in values:  # cut off behind its first part
        return Reading(kinds=("ds_report",) if any(HEAD in line for line in lines) else ())
    hip, cuda = values.get("torch hip version"), values.get("torch cuda version")
    if cuda in (None, "None"):
        cuda = cuda_of(values["torch version"])
    return Reading(
        kinds=("ds_report",),
        torch=values["torch version"],
        cuda=cuda,
        hip=None if hip in (None, "None") else hip,
        cuda_available=False if any(NO_RUNTIME in line for line in lines) else None,
    )
