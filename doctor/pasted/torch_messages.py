"""What torch printed about CUDA beside a report: why it did not start, and the build's GPU code."""

from __future__ import annotations

import re

from doctor.pasted.reading import Reading

ERROR = re.compile(
    r"UserWarning: CUDA initialization: (.{1,300})|"
    r"(The NVIDIA driver on your system is too old \(found version \d{4,6}\))|"
    r"(Found no NVIDIA driver on your system)|"
    r"RuntimeError: (No CUDA GPUs are available)"
)
ARCHS = re.compile(
    r"current PyTorch install supports CUDA capabilities ((?:(?:sm|compute)_\w{2,5} ?)+)"
)


def read(lines: list[str]) -> Reading:
    """The first of each kind in the lines. They are no report by themselves."""
    error = next((match for line in lines if (match := ERROR.search(line))), None)
    archs = next((match[1] for line in lines if (match := ARCHS.search(line))), "")
    text = next((group for group in error.groups() if group), "") if error else ""
    if not text and not archs:
        return Reading()
    return Reading(
        kinds=("torch's messages",),
        cuda_error=text.split(" (Triggered")[0] or None,
        archs=tuple(archs.split()),
    )
