"""Errors that stand beside a report: what torch and the driver's libraries printed.

The rows are those of `doctor.errors`; a row fills the field of the reading whose judge knows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from doctor._util.owner import Owner
from doctor.errors.cause import Cause
from doctor.errors.match import INFORMS, candidates, lines_of, table_of, with_message
from doctor.facts.host import Reported
from doctor.facts.interpreter import NO_CODE
from doctor.facts.machine import Gpu
from doctor.hardware.find import family_of
from doctor.pasted.compilers import first_error
from doctor.pasted.operators import last_operator
from doctor.pasted.packages import NO_OPERATOR, wanted_vision
from doctor.pasted.reading import Reading, gpu_named

ARCHS = re.compile(
    r"current PyTorch install supports CUDA capabilities ((?:(?:sm|compute)_\w{2,5} ?)+)"
)
BUILT_FOR = re.compile(r"\s*(?:- )?(\d{1,2})\.(\d) which supports hardware CC\b")
"""A row of the list that torch 2.11 prints instead."""
BREAK = re.compile(r"(?<=\w) {20,}(?=\w)")
"""Where a narrow terminal broke a word and filled the line."""
PREFIX = re.compile(
    r".{0,300}?(?:UserWarning: CUDA initialization: |(?:Runtime|Accelerator|Import|OS)Error: )"
)
"""What stands before a message: a path and a line of torch's own code."""

DRIVER_CODES = {"fabric-not-ready": 802, "libcuda-compat": 803, "libcuda-stub": 34}
"""Row -> the code of cuInit, which DRV001 judges."""
OF_NEWER_IMAGE = re.compile(
    r"Using CUDA [\d.]{3,8} driver version [\d.]{3,16} with kernel driver version [\d.]{3,16}\b"
)
"""What NVIDIA's images print where they are for a newer driver; good on GPUs for data centers."""
COUNTING = re.compile(
    r"cudaGetDeviceCount\(\)\..{0,200}\bError (3|34|304|80[234]|999)\b|"
    r"cudaGetDeviceCount returned (3|34|100|304|80[234]|999)\b"
)
"""The number counts where the sentence behind it was cut off."""
MENTIONED = re.compile(
    r"\b(?:(?:RTX|GTX) ?(?:PRO )?\d{4}(?: ?Ti| Super| D| Laptop)?|"
    r"[ABHLVPT]\d{1,3}S?|K[48]0|GB\d{2,3}|GH200|"
    r"(?:(?<=Jetson )|(?<=Jetson AGX ))(?:Orin|Thor|Xavier))\b"
)
"""Models as people write them."""
GFX = re.compile(r"\bgfx\d{3,4}[0-9a-f]?\b")
SHORT = re.compile(
    r"(?<![A-Za-z])(?:GTX|GPU|显卡[是为：:]?) ?([2-5]0[5-9]0)( ?Ti)?(?![A-Za-z\d]| ?[MG]i?B)",
    re.IGNORECASE,
)
"""A GeForce RTX by its number alone, or as a GTX."""
OF_OTHERS = re.compile(
    r"\bRadeon\b|\bRX ?\d{3,4}\b|\bAMD (?!Ryzen|EPYC|Threadripper|Athlon|Opteron)|"
    r"\bMI\d{2,3}[AX]?\b|\bIntel(?:\(R\))? Arc\b|\bArc A\d{3}|\bMacBook|\bApple M\d|\bAscend\b",
    re.IGNORECASE,
)
"""GPUs of other vendors: beside one a bare number need not be that of an NVIDIA GPU."""
WITHOUT_CUDA = "Torch not compiled with CUDA enabled"
"""The assertion of a build for the CPU."""
KERNEL = (
    "no-kernel-image", "ptx-newer-than-driver", "gpu-code-not-loadable", "kernel-not-supported",
    "hip-architecture",
)  # fmt: skip
OWN_WARNING = re.compile(
    r"is not compatible with the current PyTorch|which is of (?:cuda|compute) capability|"
    r"no longer supports this GPU"
)
"""What torch itself says of its code: it decides before an error of any kernel."""
CUDA = (
    "cuda-not-initialized",
    "driver-too-old",
    "gpu-not-visible",
    "rocm-no-gpu",
    "cuda-unavailable",
)
CUDNN = ("cudnn-mismatch", "cudnn-refuses-gpu")
KFD = ("rocm-device-denied",)
JUDGED = (*DRIVER_CODES, *KERNEL, *CUDA, *CUDNN, *KFD, "no-kernel-image", "gpu-at-fault",
          "xid-hardware")  # fmt: skip
"""Rows that fill a field of their own, or whose lines other readers know."""
OF_MACHINE = (
    "kernel_modules",
    "machine_log",
    "host_log",
    "containers",
    "host_tools",
    "gpu_readings",
    "started",
    "installed",
    "fabric",
    "clocks",
    "accelerators",
)
"""Tables whose rows explain what other checks only observe. Many of their lines name no error."""
UNTOLD = ("condition", "harmless", "symptom", "setting", "consequence", "summary")
MOST_REPORTED, LONGEST_LINE = 32, 800
"""An out-of-memory message has its last number after some 600 characters."""
START = re.compile(
    r"UserWarning: CUDA initialization: |busy or unavailable|RuntimeError: CUDA unknown error"
)
"""Any other text of torch about the start of CUDA."""
MISSING = re.compile(
    r"\s*((?:ImportError|OSError): lib\S{1,80}: cannot open shared object.{0,100})"
)
WSL = re.compile(r"-microsoft-standard|/usr/lib/wsl/|/dev/dxg\b|\bwsl --(?:shutdown|update)")
"""Its kernel, the directory of its driver, its device, and its commands."""
JETSON = re.compile(r"\b(?:Jetson|JetPack|L4T|nv_tegra_release)\b|\d-tegra\b", re.IGNORECASE)
IMPORTING = re.compile(r"\bimport torch\b")
"""Beside it, a missing library is one of torch's."""
BROKEN = re.compile(
    r"(?:.{0,200}(?:[:\])|] {0,3}|NCCL WARN )|\s*)"
    r"(CUDA error: uncorrectable (?:ECC error(?: encountered)?|"
    r"NVLink error(?: detected during the execution)?)|"
    r"Cuda failure (?:\d{3} )?'uncorrectable (?:ECC|NVLink) error[^']{0,60}')"
    r"\W{0,2}(?:$|CUDA kernel|Compile|\()",
    re.IGNORECASE,
)
"""As a program prints it, not as a sentence quotes it: it returns a machine."""
PAST = re.compile(
    r"\b(?:earlier (?:we|I|it|today|this)\b|previously (?:we|I|it)\b|last (?:week|month|year)|"
    r"(?<!be )(?<!is )(?<!are )(?<!was )used to|solved|fixed by|"
    r"(?:was|been) (?:fixed|replaced|solved)|after the reset|"
    r"before (?:the|we|I)\b|(?:same as|like|see) #\d|no longer (?:happens|occurs|there))",
    re.IGNORECASE,
)
"""What a person tells of another time or of another thread."""
TELLS = re.compile(r"`[^`]{4,200}`[^`]{24}|[^`]{24}`[^`]{4,200}`(?!\W*$)")
"""A sentence of a person around what is quoted in it: no machine is returned for it."""
ALONE = 5
"""Lines of a text that is such a sentence and no report beside it."""
SCHEDULED = re.compile(r"Successfully assigned \S{1,120} to |\bScheduled\s+pod/")
"""The pod waited, and got its node."""
PCI_ROWS = ("pcie-link-errors", "iommu-blocks-gpu")
"""Rows of lines that the kernel prints of every device."""
ADDRESS = re.compile(r"\b(?:[\da-f]{4}:)?([\da-f]{2}:[\da-f]{2}\.\d)\b", re.IGNORECASE)
OF_GPU = re.compile(r"nvidia|NVRM|amdgpu|nouveau|3D controller", re.IGNORECASE)
PORT = re.compile(r"pcieport (?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.\d:?", re.IGNORECASE)
DRIVEN = re.compile(r"\b(\w[\w-]{1,20}) (?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.\d:", re.IGNORECASE)
IMPORT = re.compile(
    r"\s*((?:ImportError|OSError|ModuleNotFoundError): .{0,300}"
    r"(?:/torch/|libtorch|'torch\.).{0,300}|"
    r"(?:\S{1,200}/)?libtorch\w{0,20}\.so: undefined symbol: \w{1,200})"
)
SAYS = re.compile(
    r"error|exception|warn|fail|\bfatal\b|not compatible|no longer supports|"
    r"driver on your system|Unable to",
    re.IGNORECASE,
)
"""A line that prints an error, as opposed to prose and code that name one."""
BARE = re.compile(r"\b[A-Z]\w{0,60}(?:Error|Exception): {0,8}$")
"""An exception whose message begins with a line break."""
IN_WARNINGS = ("xformers-does-not-fit", "bitsandbytes-setup", "numpy-of-other-build")
"""Rows of packages that only warn where they cannot work."""
PYXIS = "slurmstepd: error: pyxis: container start failed"
WITHOUT_ERROR = ("processor-lacks-instruction", "hip-memory-fault", "xformers-does-not-fit")
"""Rows of lines in which no word says that they are an error."""
RESOLVER = re.compile(r"pip's dependency resolver does not currently")
"""pip prints it of any package; `doctor.pasted.requirements` judges the lines below."""
NOT_READ = (PAST, RESOLVER, re.compile(r"Missing .{0,2}iommu=pt"))
"""RCCL prints the last one also where the kernel passes addresses through by default."""
LEVEL = re.compile(r"\s*(?:[\w.:,-]{1,30} ){0,3}(?:WARNING|INFO|DEBUG|NOTE)\b")
"""A line that only informs, as a logger prints it."""
REFUSES = re.compile(r"\b(?:cannot|can't|could not|couldn't|unable)\b", re.IGNORECASE)
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
    archs = next((match[1] for line in lines if (match := ARCHS.search(line))), "").split()
    archs = archs or [f"sm_{m[1]}{m[2]}" for line in lines if (m := BUILT_FOR.match(line))]
    import_error = next((match[1] for line in lines if (match := IMPORT.match(line))), None)
    if import_error is None and any(map(IMPORTING.search, lines)):
        import_error = next((match[1] for line in lines if (match := MISSING.match(line))), None)
    printed = [line for line in lines if _prints(line)]
    alone = len(lines) <= ALONE
    driver, code = _driver_start([each for each in printed if alone or not TELLS.search(each)])
    kernel, cuda, cudnn, kfd = (_first(printed, ids) for ids in (KERNEL, CUDA, CUDNN, KFD))
    kernel = _first(list(filter(OWN_WARNING.search, printed)), KERNEL) or kernel
    cuda_error = cuda[1] if cuda else next(filter(START.search, printed), None)
    broken = next((match[1] for line in lines
                   if not PAST.search(line) and (match := BROKEN.match(line))), None)  # fmt: skip
    is_jetson = import_error is not None and any(map(JETSON.search, lines))
    found = Reading(
        kinds=("error lines",),
        system="Linux" if is_jetson else None,
        release="-tegra" if is_jetson else None,
        arch="aarch64" if is_jetson else None,
        cuda_error=_message(cuda_error),
        driver_error=_with_image(_message(driver), code, lines),
        driver_code=code,
        import_error=import_error,
        kernel_error=broken or (_raised(kernel[1], lines) if kernel else None),
        kernel_is_hardware=broken is not None,
        cudnn_error=_message(cudnn[1]) if cudnn else None,
        kfd_error=_message(kfd[1]) if kfd else None,
        amd=True if kfd or (cuda and cuda[0].id == "rocm-no-gpu") else None,
        archs=tuple(dict.fromkeys(archs)),
        gpus=_gpus(gpu, lines if kernel or WITHOUT_CUDA in (cuda_error or "") else ()),
        gfx=_gfx(lines) if kernel and "HIP error" in kernel[1] else (),
    )
    known = (archs, import_error, broken, kernel, cuda_error, driver, cudnn, kfd)
    return found if any(known) else Reading()


def _with_image(message: str | None, code: int | None, lines: list[str]) -> str | None:
    """The message of a libcuda that does not fit, with what the image says of its driver."""
    match = next(filter(None, map(OF_NEWER_IMAGE.search, lines)), None)
    return f"{message}; {match[0]}" if match and code in (803, 804) else message


def _raised(line: str, lines: Sequence[str]) -> str | None:
    """The message of a kernel's error, with the operator of an extension that it was raised in."""
    operator = last_operator(lines) if NO_CODE.search(line) else ""
    return f"{_message(line)} ({operator})" if operator else _message(line)


def _prints(line: str) -> bool:
    says = SAYS.search(line) or line.startswith(("-> ", "cudaGetDeviceCount returned"))
    return bool(says) and not CODE.match(line) and not PAST.search(line)


def reported(lines: list[str], *, is_explained: bool, is_report: bool) -> Reading:
    """The lines with a known message that no other reader takes.

    `is_explained`: another error is judged already, so that only those count that may explain it.
    `is_report`: they stand beside a report; alone, errors of a program are none.
    """
    possible = candidates(lines)
    ids = {cause.id for cause in possible}
    hits = [(cause, line) for line in dict.fromkeys(line for _, line in lines_of(lines, ids))
            if not CODE.match(line) and not any(each.search(line) for each in NOT_READ)
            and (cause := _taken_by_none(line, possible))]  # fmt: skip
    if any(map(SCHEDULED.search, lines)):
        hits = [(cause, line) for cause, line in hits if cause.id != "pod-not-scheduled"]
    if is_explained:  # pyxis repeats what the driver's tools say
        hits = [each for each in hits if not each[1].lstrip().startswith(PYXIS)]
    others = _of_other_devices([line for cause, line in hits if cause.id in PCI_ROWS], lines)
    hits = [(cause, line) for cause, line in hits if line not in others]
    ids = {cause.id for cause, _ in hits}
    better = {id for cause, _ in hits for id in cause.yields_to}
    raised = {line for name, line in pairwise(lines) if BARE.search(name)}
    found, compiler, vision = [], first_error(lines), wanted_vision(lines)
    for cause, line in hits:
        informs = INFORMS.match(line) or LEVEL.match(line)
        is_quiet = informs and cause.id not in IN_WARNINGS
        says = (SAYS.search(line) or REFUSES.search(line) or line in raised) and not is_quiet
        is_error = says and not is_explained and (is_report or cause.owner is not Owner.JOB)
        more = cause.id in better or not ids.isdisjoint(cause.refines)
        if is_error or more or table_of(cause) in OF_MACHINE or cause.id in WITHOUT_ERROR:
            added = compiler if cause.id == "extension-not-built" else ""
            added = vision if NO_OPERATOR.search(line) else added
            found.append(Reported(cause=cause.id, line=line.strip()[:LONGEST_LINE] + added))
    known = tuple(found[:MOST_REPORTED])
    return Reading(kinds=("known lines",), reported=known) if known else Reading()


def reported_as(message: str) -> tuple[Reported, ...]:
    """A message whose own field nothing judges, because torch's version is not known."""
    return tuple(Reported(cause=each.id, line=message) for each in with_message(message)[:1])


def _of_other_devices(hits: list[str], lines: list[str]) -> set[str]:
    """Those of the PCI bus's lines that are about a device which is no GPU: a wireless adapter, a
    disk, the graphics of the processor (bus 00). A port's own line is about what is behind it."""
    gpus = {each for line in lines if OF_GPU.search(line) for each in ADDRESS.findall(line)}
    named = {line: set(ADDRESS.findall(PORT.sub("", line))) for line in hits}
    own = {line for line, found in named.items() if found & gpus}
    drivers = {line: (DRIVEN.search(line) or [""] * 2)[1] for line in hits}
    other = {
        line
        for line, found in named.items()
        if line not in own
        and ((found and (gpus or all(each.startswith("00:") for each in found)))
             or (drivers[line] not in ("", "pcieport") and not OF_GPU.search(drivers[line])))
    }  # fmt: skip
    return set(hits) - own if other else other


def _taken_by_none(line: str, possible: Sequence[Cause]) -> Cause | None:
    """The row of a line that fills no field, of those that the text may have messages of."""
    cause = next((each for each in with_message(line, possible) if not each.quotes), None)
    return None if cause is None or cause.id in JUDGED or cause.role in UNTOLD else cause


def _driver_start(printed: Sequence[str]) -> tuple[str | None, int | None]:
    """The line with an error of cuInit, and CUDA's number of it."""
    row = _first(printed, tuple(DRIVER_CODES))
    numbered = next(filter(COUNTING.search, printed), None)
    line = row[1] if row else numbered
    match = COUNTING.search(line) if line else None
    if match:
        return line, int(match[1] or match[2])
    if row and line:
        return line, 804 if "804" in line else DRIVER_CODES[row[0].id]
    return None, None


def _gpus(warned: re.Match[str] | None, lines: Sequence[str]) -> tuple[Gpu, ...]:
    """The GPU that torch's warning names, or the only model that the lines mention."""
    if warned:
        return (gpu_named(0, warned[1], capability=(int(warned[2]), int(warned[3]))),)
    return mentioned(lines)


def mentioned(lines: Sequence[str]) -> tuple[Gpu, ...]:
    """The only model of a GPU that people mention in the lines."""
    named = [" ".join(name.split()) for line in lines for name in MENTIONED.findall(line)]
    if not any(map(OF_OTHERS.search, lines)):
        named += [f"RTX {m[1]}{' Ti' * bool(m[2])}" for line in lines for m in SHORT.finditer(line)]
    models = {name for name in named if family_of(name)}
    return (gpu_named(0, models.pop()),) if len(models) == 1 else ()


def _gfx(lines: Sequence[str]) -> tuple[str, ...]:
    """The only architecture of AMD's that the lines name."""
    found = {each for line in lines for each in GFX.findall(line)}
    return tuple(found) if len(found) == 1 else ()


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
