"""How a job was started that has no GPU: containers, pods, nodes of Slurm, virtual machines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from doctor.facts.host import Reported

WITHOUT = re.compile(
    r"\"?nvidia-smi\"?: (?:executable file not found|command not found|not found)|"
    r"nvidia-smi (?:is |was |are )?not found|"
    r"Found no NVIDIA driver|No CUDA GPUs are available|libcuda\.so(?:\.1)?: cannot open|"
    r"Failed to initialize NVML|NVIDIA Driver was not detected|No devices were found|"
    r"couldn't communicate with the NVIDIA driver|is_available\(\)\W{1,6}(?:returns |is )?False|"
    r"CUDA available\W{1,4}False|"
    r"^'?\d\.\d{1,2}\.\d{1,2}\S{0,12}'?,? (?:\S{1,12} )?False\b|no CUDA-capable device"
)
"""What a program prints that finds no GPU."""
NO = re.compile(r"(?:Out\[\d{1,4}\]: )?False")
"""An answer of Python and of IPython."""
STARTED = re.compile(
    r"(?:^|[\s$#;&(`])(docker|podman|nerdctl|apptainer|singularity)(?: container| --\S{1,40})? "
    r"(run|create|exec|shell)\b(.{0,1500})"
)
OF_IMAGES = ("apptainer", "singularity")
"""`exec` of these starts a container; of the others it enters one."""
GIVES = re.compile(
    r"--gpus\b|--runtime[= ]nvidia|nvidia\.com/gpu|/dev/(?:nvidia|kfd|dri)|--nv(?:ccli)?\b|"
    r"--rocm\b|NVIDIA_VISIBLE_DEVICES['\"]?[=:]\s?(?!['\"]?(?:void|none))|driver: ['\"]?nvidia|"
    r"capabilities: \[.{0,8}gpu|^\W{0,24}gpu\W{0,2}$|runtime: ['\"]?nvidia|"
    r"\bgpus: ?(?:['\"]?all|\d|\[|$)|default-runtime|--hooks-dir"
)
"""Options and settings that give a container GPUs."""
INSPECTED = re.compile(r"[\"']?DeviceRequests[\"']?:\s*(?:null|\[\])")
FORMATTED = re.compile(r"DeviceRequests\}\}")
EMPTY = re.compile(r"(?:null|\[\])(?=\s|$)")
HIDDEN = re.compile(r"NVIDIA_VISIBLE_DEVICES=(void|none)\b")
PAGES = 40
"""Lines that are looked at behind a command or a heading."""

SERVICES = re.compile(r"\s{0,8}services:\s*$")
OF_SERVICE = re.compile(
    r"\s{2,12}(?:build:|image: ?.{0,80}(?:torch|cuda|nvidia|tensorflow|rocm|train|jax|jupyter|llm))"
)
"""A service that may train; a database needs no GPU."""
ELSEWHERE = re.compile(r"\s*(?:extends|include|runs-on|jobs):")
"""What a service is given may stand in another file; services of CI are beside the job."""
CPU_BUILD = re.compile(
    r"(?:^|[^\w-])(?:py)?torch(?:[ _]version|\.__version__)?\W{1,60}\d\.\d{1,2}\.\w{1,16}\+cpu\b|"
    r"^CUDA used to build PyTorch\s?: None\s*$",
    re.IGNORECASE,
)
"""A torch that is built for the CPU: nobody asked for GPUs, and none would help it."""
REACHES = re.compile(r"driver on your system is too old|\bCUDA Version: \d")
"""Printed where the driver was found."""

RESOURCES = re.compile(r"\s*(?:resources:|Limits:|limits:|Requests:|requests:)\s*$")
A_GPU = re.compile(r"(?:nvidia|amd|gpu\.intel)\.com/|\bgpu\b")
CAPACITY = re.compile(r"\s*(Capacity|Allocatable|capacity|allocatable):\s*$")
GPUS = re.compile(r"\s*[\"']?((?:nvidia|amd)\.com/gpu)[\"']?:\s+[\"']?(\d{1,3})[\"']?\s*$")
UNHEALTHY = re.compile(r"device (?:is )?marked (?:as )?unhealthy|marking device .{0,60}unhealthy",
                       re.IGNORECASE)  # fmt: skip
EVENT = re.compile(r"EventData:(\d{1,3})\b|XidCriticalError: Xid=(\d{1,3})\b")

SEVERAL = re.compile(r"CUDA_VISIBLE_DEVICES=['\"]?MIG-[\w/-]{8,80},MIG-[\w/,-]{8,600}")
COUNTS = re.compile(
    r"nproc[_-]per[_-]node|device_count|ordinal|\bDDP\b|num_processes", re.IGNORECASE
)

PCI = re.compile(
    r"(?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.0 (?:3D|VGA compatible) controller.{0,20}NVIDIA"
)
OTHER_PCI = re.compile(r"(?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.\d ")
BOUND = re.compile(r"\s*Kernel driver in use: (\S{1,30})")

GRANTED = re.compile(r"\bAllocTRES=(\S{1,120})")
NO_DEVICE = re.compile(r"No devices were found|No CUDA GPUs are available|no CUDA-capable device")
OPTION = re.compile(r"\s*#SBATCH\s+(-\S{1,80})")
OF_GPUS = re.compile(r"--(?:gres|gpus\S{0,10}|tres\S{0,20})[= ]|\s-G\s?\d")
"""Options of sbatch, salloc and srun."""
OF_JOB = re.compile(r"(?:declare -x )?SLURM_(?:JOB_ID|CPUS_ON_NODE|NODELIST|JOB_PARTITION)=")
GIVEN = re.compile(r"SLURM_(?:GPUS\w*|JOB_GPUS|STEP_GPUS)=|GPU_DEVICE_ORDINAL=|_VISIBLE_DEVICES=\d")

STATE = re.compile(
    r"\s*State=(\S{0,80}(?:DRAIN|(?<!POWERED_)(?<!POWERING_)DOWN|FAIL|INVAL|NOT_RESPONDING)\S{0,60})"
)
REASON = re.compile(r"\s*Reason=(\S.{2,160}?)(?: \[\S{1,60}@\S{1,40}\])?\s*$")
NODE = re.compile(r"\s*NodeName=(\S{1,80})")


def read(lines: Sequence[str]) -> Iterator[Reported]:
    """What was not given to the job, and nodes that their scheduler holds back."""
    if text := _not_granted(lines):
        yield Reported(cause="job-without-gpus", line=text)
    yield from _nodes(lines)
    yield from _allocatable(lines)
    yield from _bound(lines)
    yield from _slices(lines)
    found = next((each for form in STARTS for each in form(lines)), None)
    if any(map(CPU_BUILD.search, lines)):
        return
    if found and (any(map(WITHOUT.search, lines)) or _answers_false(lines)):
        yield Reported(cause="container-started-without-gpus", line=found)


def _answers_false(lines: Sequence[str]) -> bool:
    """Whether torch, asked in the command that starts it or at a prompt, finds no GPU."""
    return any(
        "cuda.is_available()" in line and NO.fullmatch(next_.strip())
        for line, next_ in pairwise(lines)
    )


def _not_granted(lines: Sequence[str]) -> str:
    """A job of Slurm that got no GPU: by scontrol, its script or its environment; "" for others."""
    if not any(map(NO_DEVICE.search, lines)):
        return ""
    of_job = False
    for line in lines:  # of a node scontrol prints AllocTRES, and no ReqTRES
        of_job = bool(re.search(r"JobId=|ReqTRES=", line)) or (
            of_job and not re.search(r"NodeName=|Gres=|CfgTRES=", line)
        )
        match = GRANTED.search(line) if of_job else None
        if match:
            return "" if "gpu" in match[1] else f"the job was granted {match[1]}: no GPU"
    if any(map(OF_GPUS.search, lines)):
        return ""
    if len([line for line in lines if OPTION.match(line)]) > 1:
        return "the batch script has no option that requests GPUs"
    if len(set(filter(OF_JOB.match, lines))) > 1 and not any(map(GIVEN.search, lines)):
        return "the job's environment names no GPU that Slurm gave to it"
    return ""


def _commands(lines: Sequence[str]) -> Iterator[str]:
    """Lines, those that a backslash continues as one."""
    joined = ""
    for line in lines:
        joined += line.removesuffix("\\") + " "
        if not line.endswith("\\"):
            yield joined.strip()
            joined = ""
    yield joined.strip()


def _started(lines: Sequence[str]) -> Iterator[str]:
    """Commands that start a container, if none of the text has an option for GPUs."""
    if any(map(GIVES.search, lines)):
        return
    for line in _commands(lines):
        match = STARTED.search(line)
        if match and (match[1] in OF_IMAGES or match[2] in ("run", "create")):
            option = "--nv" if match[1] in OF_IMAGES else "--gpus all"
            yield f"{match[1]} {match[2]} has no option for GPUs ({option})"


def _inspected(lines: Sequence[str]) -> Iterator[str]:
    """What docker inspect prints of a container that was given no device."""
    asked = False
    for line in lines:
        empty = INSPECTED.search(line) or (asked and EMPTY.match(line.strip()))
        if empty and "nvidia" not in line:
            yield "docker inspect prints no DeviceRequests: the container was given no GPU"
        asked = bool(FORMATTED.search(line))


def _hidden(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if match := HIDDEN.search(line):
            yield f"NVIDIA_VISIBLE_DEVICES={match[1]} gives the container no GPU"


def _pod(lines: Sequence[str]) -> Iterator[str]:
    """The resources of a pod of Kubernetes, without a GPU among them."""
    if not any("kubectl" in line or "apiVersion:" in line for line in lines):
        return
    blocks = [_block(lines, number) for number, line in enumerate(lines) if RESOURCES.match(line)]
    stated = [each for each in blocks if any("memory" in row or "cpu" in row for row in each)]
    if stated and not any(A_GPU.search(row) for each in stated for row in each):
        yield "the pod's resources name no nvidia.com/gpu: Kubernetes gave it none"


def _compose(lines: Sequence[str]) -> Iterator[str]:
    """Services of a compose file, of which none is given GPUs."""
    head = next((number for number, line in enumerate(lines) if SERVICES.match(line)), None)
    if head is None or any(GIVES.search(line) or ELSEWHERE.match(line) for line in lines):
        return
    if any(map(REACHES.search, lines)):
        return
    if any(map(OF_SERVICE.match, _block(lines, head))):
        yield "the compose file was given no GPU: no service reserves a device"


def _block(lines: Sequence[str], head: int) -> list[str]:
    """The lines below a heading that are indented more."""
    depth = len(lines[head]) - len(lines[head].lstrip())
    rows = []
    for line in lines[head + 1 : head + PAGES]:
        if line and len(line) - len(line.lstrip()) <= depth:
            break
        rows.append(line)
    return rows


STARTS = (_inspected, _hidden, _started, _pod, _compose)


def _allocatable(lines: Sequence[str]) -> Iterator[Reported]:
    """A node of Kubernetes that offers fewer GPUs than it has."""
    counts: dict[str, tuple[str, int]] = {}
    heading = ""
    for line in lines:
        if match := CAPACITY.match(line):
            heading = match[1].lower()
        elif (match := GPUS.match(line)) and heading:
            counts.setdefault(heading, (match[1], int(match[2])))
    has, offers = counts.get("capacity"), counts.get("allocatable")
    events = [m[1] or m[2] for line in lines if (m := EVENT.search(line))]
    marked = any(map(UNHEALTHY.search, lines))
    why = ", its device plugin marked GPUs as unhealthy" if marked else ""
    why += f" (Xid {events[-1]})" if marked and events else ""
    if has and offers and offers[1] < has[1]:
        text = f"the node has {has[1]} {has[0]} and offers {offers[1]}{why}"
        yield Reported(cause="gpus-not-allocatable", line=text)


def _slices(lines: Sequence[str]) -> Iterator[Reported]:
    """Several MIG instances in one variable, for a program that counts devices."""
    counts = [match[0].count("MIG-") for line in lines if (match := SEVERAL.search(line))]
    if counts and any(map(COUNTS.search, lines)):
        text = f"CUDA_VISIBLE_DEVICES names {counts[0]} MIG instances, and a process uses one"
        yield Reported(cause="mig-slices-not-joined", line=text)


def _bound(lines: Sequence[str]) -> Iterator[Reported]:
    """GPUs that lspci shows bound to vfio-pci, where nvidia-smi finds too few."""
    drivers: list[str] = []
    is_gpu = False
    for line in lines:
        if OTHER_PCI.match(line):
            is_gpu = bool(PCI.match(line))
        elif is_gpu and (match := BOUND.match(line)):
            drivers.append(match[1])
    held = drivers.count("vfio-pci")
    if held and any(map(WITHOUT.search, lines)):
        verb = "GPU is" if len(drivers) == 1 else "GPUs are"
        text = f"{held} of {len(drivers)} {verb} bound to vfio-pci"
        yield Reported(
            cause="gpu-of-virtual-machine", line=f"{text}, which hands them to virtual machines"
        )


def _nodes(lines: Sequence[str]) -> Iterator[Reported]:
    """A node that scontrol shows as drained or down, with the reason."""
    node = state = ""
    for line in lines:
        if match := NODE.match(line):
            node, state = match[1], ""
        if match := STATE.match(line):
            state = match[1]
        elif (match := REASON.match(line)) and state and "=None" not in line:
            text = f"Slurm holds node {node or 'NODE'} back ({state}): {match[1]}"
            yield Reported(cause="slurm-node-held-back", line=text)
            state = ""
