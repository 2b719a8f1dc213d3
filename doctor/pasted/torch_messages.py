"""Errors that stand beside a report: what torch and the driver's libraries printed.

The rows are those of `doctor.errors`; a row fills the field of the reading whose judge knows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.errors.cause import Cause
from doctor.errors.match import lines_of
from doctor.facts.machine import Gpu
from doctor.pasted.reading import Reading, gpu_named

ARCHS = re.compile(
    r"current PyTorch install supports CUDA capabilities ((?:(?:sm|compute)_\w{2,5} ?)+)"
)
BREAK = re.compile(r"(?<=\w) {20,}(?=\w)")
"""Where a narrow terminal broke a word and filled the line."""
PREFIX = re.compile(
    r".{0,300}?(?:UserWarning: CUDA initialization: |(?:Runtime|Accelerator|Import|OS)Error: )"
)
"""What stands before a message: a path and a line of torch's own code."""

DRIVER_CODES = {"fabric-not-ready": 802, "libcuda-compat": 803, "libcuda-stub": 34}
"""Row -> the code of cuInit, which DRV001 judges."""
KERNEL = (
    "no-kernel-image", "ptx-newer-than-driver", "gpu-code-not-loadable", "kernel-not-supported",
    "hip-no-code",
)  # fmt: skip
CUDA = ("driver-too-old", "gpu-not-visible", "rocm-no-gpu", "cuda-unavailable")
CUDNN = ("cudnn-mismatch", "cudnn-refuses-gpu")
KFD = ("rocm-device-denied",)
START = re.compile(r"UserWarning: CUDA initialization: |busy or unavailable")
"""Any other text of torch about the start of CUDA."""
MISSING = re.compile(
    r"\s*((?:ImportError|OSError): lib\S{1,80}: cannot open shared object.{0,100})"
)
IMPORTING = re.compile(r"\bimport torch\b")
"""Beside it, a missing library is one of torch's."""
OFF_BUS = re.compile(r".*NVRM:.*(?:fallen off the bus|RmInitAdapter failed|probe routine failed)")
BUS = re.compile(r"NVRM: .{0,40}\b([\dA-Fa-f]{4,8}:[\dA-Fa-f]{2}:[\dA-Fa-f]{2})\b")
"""The driver's lines about a GPU that it cannot reach."""
BROKEN = re.compile(r"CUDA error: uncorrectable (?:ECC|NVLink) error\b.{0,60}", re.IGNORECASE)
IMPORT = re.compile(r"\s*((?:ImportError|OSError|ModuleNotFoundError): .{0,300}"
                    r"(?:/torch/|libtorch|'torch\.).{0,300})")  # fmt: skip
SAYS = re.compile(
    r"error|exception|warn|fail|not compatible|no longer supports|driver on your system|Unable to",
    re.IGNORECASE,
)
"""A line that prints an error, as opposed to prose and code that name one."""
CODE = re.compile(
    r"\s*(?:(?:if|elif|except|assert|raise|def|return|import|from)\b|#|//)|.*\bin str\("
)
GPU = re.compile(
    r"\s*(?!\s)(?:.{0,200}UserWarning:)?\s*(?!\s)(?:Found GPU\d{1,3} )?([A-Z][\w .-]{2,60}?)"
    r"(?: with CUDA capability sm_| which is of (?:cuda|compute) capability (?:\(CC\) )?)"
    r"(\d{1,2})\.?(\d)a?\b"
)
"""The GPU that torch names in a warning about its code."""


def read(lines: list[str]) -> Reading:
    """The first of each kind in the lines. They are no report by themselves."""
    gpu = next((match for line in lines if (match := GPU.match(line))), None)
    archs = next((match[1] for line in lines if (match := ARCHS.search(line))), "")
    import_error = next((match[1] for line in lines if (match := IMPORT.match(line))), None)
    if import_error is None and any(map(IMPORTING.search, lines)):
        import_error = next((match[1] for line in lines if (match := MISSING.match(line))), None)
    printed = [line for line in lines if SAYS.search(line) and not CODE.match(line)]
    driver = _first(printed, tuple(DRIVER_CODES))
    kernel, cuda, cudnn, kfd = (_first(printed, ids) for ids in (KERNEL, CUDA, CUDNN, KFD))
    cuda_error = cuda[1] if cuda else next(filter(START.search, printed), None)
    broken = next((match[0] for line in lines if (match := BROKEN.search(line))), None)
    code = DRIVER_CODES[driver[0].id] if driver else None
    if driver and "804" in driver[1]:
        code = 804
    lost = _lost(lines)
    found = Reading(
        kinds=("error lines",),
        cuda_error=_message(cuda_error),
        driver_error=_message(driver[1]) if driver else None,
        driver_code=code,
        import_error=import_error,
        kernel_error=broken or (_message(kernel[1]) if kernel else None),
        kernel_is_hardware=broken is not None,
        cudnn_error=_message(cudnn[1]) if cudnn else None,
        kfd_error=_message(kfd[1]) if kfd else None,
        amd=True if kfd or (cuda and cuda[0].id == "rocm-no-gpu") else None,
        archs=tuple(archs.split()),
        gpus=(gpu_named(0, gpu[1], capability=(int(gpu[2]), int(gpu[3]))),) if gpu else lost,
    )
    known = (lost, archs, import_error, broken, kernel, cuda_error, driver, cudnn, kfd)
    return found if any(known) else Reading()


def _lost(lines: list[str]) -> tuple[Gpu, ...]:
    """The GPU that the kernel log says the driver cannot reach."""
    line = next((line for line in lines if OFF_BUS.match(line)), None)
    if line is None:
        return ()
    bus = next((match[1] for each in lines if (match := BUS.search(each))), "")
    text = " ".join(line[line.index("NVRM") :].split())[:200]
    return (Gpu(index=0, uuid="", name="", bus_id=bus, lost=text),)


def _first(lines: Sequence[str], ids: Sequence[str]) -> tuple[Cause, str] | None:
    """The first line with the message of one of these rows, and the row."""
    return next(lines_of(lines, ids), None)


def _message(line: str | None) -> str | None:
    """The message in a line, without torch's path before it and the place in C++ behind it."""
    if line is None:
        return None
    match = PREFIX.match(line)
    text = line[match.end() :] if match else line
    return BREAK.sub("", text).split(" (Triggered")[0].strip()[:300]
