"""What texts show of GPUs of AMD and Intel, of Gaudi, Macs and WSL, where something fails there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from doctor.facts.host import Reported
from doctor.pasted.smi_load import SLOWER
from doctor.pasted.starts import WITHOUT
from doctor.pasted.torch_messages import WSL

COMPUTE = re.compile(
    r"(?:COMPUTE|ACCELERATOR)_PARTITION: (?P<a>[CDQST]PX)\b|Compute Partition: (?P<b>[CDQST]PX)\b|"
    r"\b(?P<m>NPS\d), (?P<c>[CDQST]PX), \d|\b(?P<d>[CDQST]PX)/(?P<n>NPS\d)\b"
)
MEMORY = re.compile(r"(?:MEMORY_PARTITION|Memory Partition): (NPS\d)\b")
SMALLER = re.compile(
    r"out ?of ?memory|\bOOM|instead of|rather than|supposed to|isn'?t (?:this|it)|"
    r"should (?:be|have|see|show|report)|\bonly \d|expect\w{0,3} (?:\d|it|to see)|\bwrong\b|"
    r"\bwhy\b|\bwtf\b",
    re.IGNORECASE,
)
"""A person or a program finds less than there should be."""
ON_PURPOSE = re.compile(r"\bon purpose\b|deliberate|intentional|by design", re.IGNORECASE)

GAUDI_DRIVER = re.compile(r"\|\s*Driver Version:\s+(\d\.\d{1,3})\.\d{1,3}-\w")
GAUDI_TORCH = re.compile(
    r"\bhabana[-_]torch[-_]plugin\S{0,2}\s*(\d\.\d{1,3})\.\d|"
    r"\btorch\S{0,2}\s+\S{3,12}\+hpu\.(\d\.\d{1,3})\.\d"
)
GAUDI_FAILS = re.compile(
    r"synStatus=|[Aa]cquire|[Nn]o devices? found|hpu\.is_available\(\).{0,12}False|\bhpu\b.*rror"
)

XPU = re.compile(
    r"XPU device count is zero|No XPU devices are available|"
    r"^'?\d\.\d{1,2}\.\d\S{0,12}\+xpu.*\bFalse|xpu\.is_available\(\)\W{1,6}(?:returns |is )?False"
)
BUILT_FOR = re.compile(r"\b\d\.\d{1,2}\.\d\+(cu\d{2,3}|cpu|xpu|rocm[\d.]{1,5})\b")
INTEL_GPU = re.compile(
    r"\bIntel(?:\(R\))? (?:Arc\b|Graphics \[|Data Center GPU|Iris\(R\) Xe)|\bArc [AB]\d{3}\b"
)
OTHER_GPU = re.compile(r"GeForce|\b[RG]TX\b|Quadro|Tesla|NVIDIA-SMI|NVIDIA [A-Z]\d|Radeon|Instinct")
XPU_ASKED = re.compile(r"torch\.xpu\.(?:is_available|device_count)")
NONE = re.compile(r"False(?: 0)?\s*$")
NODE = re.compile(r"c\S{9,10} +\d+ +root +(\w{3,16}) +226, +\d{3} .{0,40}renderD\d{3}")
GROUPS = re.compile(r".{0,80}[$#>] (?:id -nG|id -Gn|groups)(?: \S{1,32})?\s*$")
SYCL_GPU = re.compile(r"\[(?:level_zero|opencl|ext_oneapi_level_zero):gpu\]")
SYCL_CPU = re.compile(r"\[opencl:cpu\]")
SMALL_WINDOW = "Resizable BAR not detected"

APPLE = re.compile(r"\bM[1-5](?: (?:Pro|Max|Ultra))?\b|Apple [Ss]ilicon")
NO_MPS = re.compile(
    r"mps\.is_(?:available|built)\(\)\W{1,6}(?:returns |is )?False|"
    r"not linked with support for mps|MPS not available because"
)
MPS_ASKED = re.compile(r"mps\.is_(?:available|built)\(\)")
OF_INTEL = re.compile(r"^\s*'?x86_64'?\s*$|\bosx-64\b|macOS-[\d.]{2,8}-x86_64|\bRosetta\b")

CUDA_ASKED = re.compile(r"cuda\.is_available\(\)")
LIBRARY = re.compile(r"\s*libcuda\.so(?:\.1)? \(\S{1,40}\) => (/\S{1,120})")
PACKAGE = re.compile(
    r"\s*ii\s+((?:libnvidia-compute|nvidia-driver|nvidia-dkms|nvidia-utils|cuda-drivers)[\w-]{0,20})"
)
FAILS = re.compile(r"CUDA unknown error|cuInit|Driver/library version mismatch")


def read(lines: Sequence[str]) -> Iterator[Reported]:
    """The cause of each that the text complains of."""
    for reader in (_partitioned, _gaudi, _intel, _mac, _wsl):
        yield from reader(lines)


def _partitioned(lines: Sequence[str]) -> Iterator[Reported]:
    """GPUs of AMD in parts, where somebody misses the whole."""
    modes = [match for line in lines if (match := COMPUTE.search(line))]
    compute = {match["a"] or match["b"] or match["c"] or match["d"] for match in modes} - {"SPX"}
    memory = {match["m"] or match["n"] for match in modes} - {None}
    memory |= {match[1] for line in lines if (match := MEMORY.search(line))}
    memory -= {"NPS1"}
    is_missed = any(SMALLER.search(line) or SLOWER.search(line) for line in lines)
    if not is_missed or any(map(ON_PURPOSE.search, lines)):
        return
    if compute:
        text = f"the GPUs are partitioned as {', '.join((*sorted(compute), *sorted(memory)))}"
        yield Reported(cause="gpu-partitioned", line=text)
    elif memory:
        text = f"the GPUs' memory is split as {', '.join(sorted(memory))}"
        yield Reported(cause="gpu-partitioned", line=text)


def _gaudi(lines: Sequence[str]) -> Iterator[Reported]:
    driver = next((match[1] for line in lines if (match := GAUDI_DRIVER.search(line))), None)
    found = (match for line in lines if (match := GAUDI_TORCH.search(line)))
    torch = next((match[1] or match[2] for match in found), None)
    if driver and torch and driver != torch and any(map(GAUDI_FAILS.search, lines)):
        text = f"Gaudi's driver is of release {driver}, its torch of {torch}"
        yield Reported(cause="accelerator-not-set-up", line=text)


def _intel(lines: Sequence[str]) -> Iterator[Reported]:
    """Why torch finds no GPU of Intel: a group, or no runtime."""
    if not any(map(XPU.search, lines)) and not _answered(lines, XPU_ASKED, NONE):
        return
    build = {match[1] for line in lines for match in BUILT_FOR.finditer(line)}
    alone = any(map(INTEL_GPU.search, lines)) and not any(map(OTHER_GPU.search, lines))
    if alone and len(build) == 1 and "xpu" not in build:
        text = f"torch is built for {build.pop()}, and the GPU is one of Intel"
        yield Reported(cause="accelerator-not-set-up", line=text)
        return
    group = next((match[1] for line in lines if (match := NODE.match(line))), None)
    groups = next((value.split() for line, value in pairwise(lines) if GROUPS.match(line)), None)
    if group and group != "root" and groups and group not in groups:
        text = f"torch finds no Intel GPU, and this user is not in the group {group}"
        yield Reported(cause="accelerator-not-set-up", line=text)
    elif (
        any(map(SYCL_CPU.search, lines))
        and not any(map(SYCL_GPU.search, lines))
        and not any(SMALL_WINDOW in line for line in lines)
    ):
        text = "sycl-ls lists no GPU beside the processor, and torch finds no Intel GPU"
        yield Reported(cause="accelerator-not-set-up", line=text)


def _answered(lines: Sequence[str], asked: re.Pattern[str], answer: re.Pattern[str]) -> bool:
    return any(asked.search(line) and answer.match(value) for line, value in pairwise(lines))


def _mac(lines: Sequence[str]) -> Iterator[Reported]:
    """A Python for Intel on a Mac with Apple's processor."""
    missing = any(map(NO_MPS.search, lines)) or _answered(lines, MPS_ASKED, NONE)
    if missing and any(map(APPLE.search, lines)) and any(map(OF_INTEL.search, lines)):
        text = "Python is built for Intel (x86_64) on a Mac of Apple's, and torch has no MPS"
        yield Reported(cause="mac-python-of-intel", line=text)


def _wsl(lines: Sequence[str]) -> Iterator[Reported]:
    """A driver for Linux inside WSL, where CUDA does not start."""
    fails = any(WITHOUT.search(line) or FAILS.search(line) for line in lines)
    fails = fails or _answered(lines, CUDA_ASKED, NONE)
    if not fails or not any(map(WSL.search, lines)):
        return
    library = next((match[1] for line in lines if (match := LIBRARY.match(line))), "")
    package = next((match[1] for line in lines if (match := PACKAGE.match(line))), "")
    hides = "in WSL a driver for Linux hides that of Windows"
    if library and not library.startswith("/usr/lib/wsl/"):
        also = f", of {package}" if package else ""
        yield Reported(cause="wsl-linux-driver", line=f"{hides}: libcuda.so.1 is {library}{also}")
    elif package and not library:
        yield Reported(cause="wsl-linux-driver", line=f"{hides}: {package} is installed")
