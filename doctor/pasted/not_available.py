"""A list of versions without a GPU that says that torch has none to use: worth a note, no fault."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from doctor.facts.host import Reported, wsl_of
from doctor.pasted.reading import Reading

OTHER = re.compile(
    r"\b(?:XPU|NPU|HPU|MLU|MUSA|SDAA|TPU)\b.{0,30}\bTrue\b|\((?:XPU|NPU|HPU|MPS|TPU)\)|"
    r"accelerator\S{0,3}:? {1,4}(?:XPU|NPU|HPU|MPS|TPU|MLU)|torch[_-](?:npu|xla)|\bCANN\b"
)
"""An accelerator that is no GPU of NVIDIA's."""


def with_note(reading: Reading, lines: Sequence[str]) -> Reading:
    """The reading with the note, where nothing else says whether there is a GPU or why not."""
    told = (
        reading.gpus, reading.driver, reading.hip, reading.amd, reading.cuda_error,
        reading.driver_error, reading.nvml_error, reading.import_error, reading.no_devices,
        reading.without_nvidia, reading.cuda_available is not None and reading.cuda != "",
    )  # fmt: skip
    is_denied = reading.cuda_denied or reading.cuda_available is False
    if not is_denied or not reading.torch or any(told) or reading.cuda is None:
        return reading
    if reading.system == "Darwin" or any(map(OTHER.search, lines)):
        return reading
    if wsl_of(reading.release or "") == "WSL1":
        text = "runs in WSL1, and the list says that it has no GPU to use"
        cause = "wsl1-listed"
    elif reading.cuda:
        text = f"is built for CUDA {reading.cuda}, and the list says that it has no GPU to use"
        cause = "cuda-not-available-listed"
    else:
        text = "is built for the CPU only, and the list says that it has no GPU to use"
        cause = "cpu-build-listed"
    line = Reported(cause=cause, line=f"torch {reading.torch} {text}")
    return replace(reading, reported=(*reading.reported, line))
