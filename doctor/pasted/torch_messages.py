"""What torch printed beside a report: why it or CUDA did not start, and the build's GPU code."""

from __future__ import annotations

import re

from doctor.pasted.reading import Reading

ERROR = re.compile(
    r"UserWarning: CUDA initialization: (.{1,300})|"
    r"(The NVIDIA driver on your system is too old \(found version \d{4,6}\))|"
    r"(Found no NVIDIA driver on your system)|"
    r"RuntimeError: (No CUDA GPUs are available)"
)
IMPORT = re.compile(r"\s*((?:ImportError|OSError): .{0,300}(?:/torch/|libtorch).{0,300})")
BROKEN = re.compile(r"(CUDA error: uncorrectable (?:ECC|NVLink) error\b.{0,60})", re.IGNORECASE)
ARCHS = re.compile(
    r"current PyTorch install supports CUDA capabilities ((?:(?:sm|compute)_\w{2,5} ?)+)"
)


BREAK = re.compile(r"(?<=\w) {20,}(?=\w)")
"""Where a narrow terminal broke a word and filled the line."""


def read(lines: list[str]) -> Reading:
    """The first of each kind in the lines. They are no report by themselves."""
    error = next((match for line in lines if (match := ERROR.search(line))), None)
    archs = next((match[1] for line in lines if (match := ARCHS.search(line))), "")
    import_error = next((match[1] for line in lines if (match := IMPORT.match(line))), None)
    gpu_error = next((match[1] for line in lines if (match := BROKEN.search(line))), None)
    text = next((group for group in error.groups() if group), "") if error else ""
    text = BREAK.sub("", text)
    if not (text or archs or import_error or gpu_error):
        return Reading()
    return Reading(
        kinds=("torch's messages",),
        cuda_error=text.split(" (Triggered")[0] or None,
        import_error=import_error,
        gpu_error=gpu_error,
        archs=tuple(archs.split()),
    )
