"""What pasted reports state, before it becomes facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from msgspec.structs import replace

from doctor._util.units import MIB
from doctor.facts.host import Hca, KernelEvent, Reported
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.facts.views import NOT_IN_REPORT as NOT_IN_REPORT
from doctor.facts.views import UNLISTED

IDENTITY = frozenset({"index", "uuid", "name", "bus_id", "unread", "slices", "diagnosed"})
"""Fields of `Gpu` that are never unread."""


NUMBERED = re.compile(r"(?:(?:GPU|MIG)-\d{1,4}|[\da-f]{4}:[\da-f:.]{7})?")
"""In place of a UUID that no report states: a number, or an address on the bus."""


class ReportError(ValueError):
    """A report that is refused; the text states why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Fields that a report does not contain are None or empty."""

    kinds: tuple[str, ...] = ()
    """The reports that were recognized: collect_env, nvidia-smi, nvidia-smi -q, ds_report, ..."""
    torch: str | None = None
    """torch's version; "" where torch could not be imported."""
    cuda: str | None = None
    """The CUDA that torch was built for; "" for none."""
    hip: str | None = None
    cuda_available: bool | None = None
    cuda_denied: bool | None = None
    """A list without a GPU states that CUDA is not available: it counts beside nvidia-smi."""
    without_nvidia: bool | None = None
    """collect_env found neither a driver nor a GPU nor a toolkit, and prints No CUDA."""
    cuda_error: str | None = None
    """torch's warning, where CUDA did not start."""
    driver_error: str | None = None
    """An error that cuInit returns, as a library printed it."""
    driver_code: int | None = None
    """CUDA's number of that error."""
    import_error: str | None = None
    """The ImportError of torch's own libraries."""
    kernel_error: str | None = None
    """The error of a kernel: no code for the GPU, code that does not load, broken hardware."""
    kernel_is_hardware: bool | None = None
    """That error is one of broken hardware."""
    cudnn_error: str | None = None
    """What cuDNN reports of the versions of its own parts."""
    kfd_error: str | None = None
    """Why ROCm cannot use /dev/kfd."""
    archs: tuple[str, ...] = ()
    """The GPU code of the build, as torch's warning lists it."""
    python: str | None = None
    system: str | None = None
    """Linux, Windows or Darwin."""
    release: str | None = None
    """Of the kernel."""
    arch: str | None = None
    cpus: int | None = None
    driver: str | None = None
    confidential: bool | None = None
    """The driver is in confidential-computing mode."""
    driver_cuda: int | None = None
    """1000 * major + 10 * minor."""
    nvml_error: str | None = None
    """What nvidia-smi printed instead of its report."""
    nvml_code: int | None = None
    """NVML's number of that error."""
    no_cuda_library: bool | None = None
    """nvidia-smi could not load libcuda: it prints ERR! for CUDA's version."""
    no_devices: bool | None = None
    """nvidia-smi printed that there are none."""
    gpus: tuple[Gpu, ...] = ()
    gfx: tuple[str, ...] = ()
    """Names of AMD's architectures, in the order of the GPUs."""
    amd: bool | None = None
    """The GPUs are AMD's: a tool of ROCm printed them."""
    visible_devices: tuple[tuple[str, str], ...] = ()
    """CUDA_VISIBLE_DEVICES and ROCm's variables, with their values."""
    shm: int | None = None
    """Bytes of /dev/shm."""
    packages: tuple[str, ...] = ()
    """Installed distributions of NVIDIA's libraries: "nvidia-nccl-cu12==2.27.3"."""
    installed: tuple[str, ...] = ()
    """torch and what is built for one torch: "torchvision==0.20.1"."""
    watched: tuple[Watched, ...] = ()
    kernel_events: tuple[KernelEvent, ...] = ()
    hcas: tuple[Hca, ...] = ()
    reported: tuple[Reported, ...] = ()
    """Lines with a known message that fills no other field."""

    def __bool__(self) -> bool:
        return bool(self.kinds)


def merge(readings: Iterable[Reading]) -> Reading:
    """One reading: each field of the first that states it, GPUs of the one that states most."""
    stating = [reading for reading in readings if reading]
    values: dict[str, Any] = {}
    for field in fields(Reading):
        stated = [getattr(reading, field.name) for reading in stating]
        values[field.name] = next((value for value in stated if value not in (None, ())), None)
    if not stating:
        return Reading()
    values["cuda_available"] = _available(stating)
    values["kinds"] = tuple(kind for reading in stating for kind in reading.kinds)
    values["gpus"] = _merged([reading.gpus for reading in stating])
    values["watched"] = _watched(stating, values["gpus"])
    values["reported"] = tuple(each for reading in stating for each in reading.reported)
    lists = (
        "visible_devices",
        "archs",
        "gfx",
        "packages",
        "installed",
        "watched",
        "kernel_events",
        "hcas",
        "reported",
    )
    values |= {name: values[name] or () for name in lists}
    return Reading(**values)


def _available(stating: list[Reading]) -> bool | None:
    """The first statement; but one of a machine without a GPU, such as a login node, yields to one
    of a machine where CUDA started."""
    first = next((each for each in stating if each.cuda_available is not None), None)
    started = any(each.cuda_available for each in stating)
    if first and started and not (first.gpus or first.driver):
        return True
    if first is None and any(each.cuda_denied for each in stating):
        is_listed = any(each.gpus and each.kinds[0].startswith("nvidia-smi") for each in stating)
        return False if is_listed else None
    return first.cuda_available if first else None


def _merged(lists: list[tuple[Gpu, ...]]) -> tuple[Gpu, ...]:
    """The list that states most, of each of its GPUs what another list adds, and the GPUs in whose
    place nvidia-smi prints an error: most have no number, and lists end there."""
    numbered = [tuple(gpu for gpu in gpus if gpu.uuid) for gpus in lists]
    first, *further = sorted(numbered, key=_detail)[::-1]
    gpus = list(first)
    for other in (gpu for others in further for gpu in others):
        number = _same(gpus, other)
        if number is not None:
            gpus[number] = _joined(gpus[number], other)
    for lost in (gpu for each in lists for gpu in each if not gpu.uuid):
        number = _same(gpus, lost)
        if number is None:
            taken = any(gpu.index == lost.index for gpu in gpus)
            is_stated = not taken and (lost.index > 0 or not lost.address)
            index = lost.index if is_stated else len(gpus)
            uuid = f"GPU-{index}" if is_stated else lost.address
            gpus.append(replace(lost, index=index, uuid=uuid))
        else:
            gpus[number] = _joined(gpus[number], lost)
    return tuple(gpus)


def _same(gpus: Sequence[Gpu], other: Gpu) -> int | None:
    """The place of the GPU with its address; where one of the two lists has none, with its number
    and its name, as another list may be of other GPUs."""
    if other.address and any(gpu.address for gpu in gpus):
        return next((n for n, gpu in enumerate(gpus) if gpu.address == other.address), None)
    if not other.uuid and other.address:  # what nvidia-smi prints in place of a GPU has no number
        return None
    alike = (n for n, gpu in enumerate(gpus) if gpu.index == other.index
             and (gpu.name == other.name or not (gpu.name and other.name)))  # fmt: skip
    return next(alike, None)


def _joined(gpu: Gpu, other: Gpu) -> Gpu:
    """The record that states more, with what the other one alone states."""
    more, less = sorted((gpu, other), key=lambda each: len(each.unread))
    values = {name: getattr(less, name, None) for name in more.unread}
    added = {name: value for name, value in values.items() if value is not None}
    is_counted = any(NUMBERED.fullmatch(each.uuid) for each in more.slices)
    return replace(
        more,
        **added,
        name=more.name or less.name,
        bus_id=more.bus_id or less.bus_id,
        lost=more.lost or less.lost,
        diagnosed=more.diagnosed or less.diagnosed,
        unread={name: why for name, why in more.unread.items() if name not in added},
        uuid=less.uuid if NUMBERED.fullmatch(more.uuid) else more.uuid,
        slices=(is_counted and less.slices) or more.slices or less.slices,
    )


def _watched(stating: list[Reading], gpus: Sequence[Gpu]) -> tuple[Watched, ...]:
    """One record for each GPU, the first, under the UUID that the merged list has for it."""
    records: dict[str, Watched] = {}
    for reading in stating:
        for record in reading.watched:
            own = next((gpu for gpu in reading.gpus if gpu.uuid == record.uuid), None)
            number = _same(gpus, own) if own else None
            uuid = gpus[number].uuid if number is not None else record.uuid
            records.setdefault(uuid, replace(record, uuid=uuid))
    return tuple(records.values())


def _detail(gpus: tuple[Gpu, ...]) -> tuple[int, int]:
    """How many of the GPUs' fields are stated, and how many GPUs."""
    return sum(len(gpu.__struct_fields__) - len(gpu.unread) for gpu in gpus), len(gpus)


def unread_fields(
    fields: Mapping[str, object],
    used: int | None = None,
    reasons: Mapping[str, str] | None = None,
    *,
    is_listed: bool = True,
) -> dict[str, str]:
    """Why fields of a GPU have no value. `used`: bytes that the report states as used;
    `is_listed`: whether the processes that use them are in the report."""
    every = sorted(set(Gpu.__struct_fields__) - IDENTITY)
    unread = {name: NOT_IN_REPORT for name in every if fields.get(name) is None}
    unread |= {name: why for name, why in (reasons or {}).items() if name in unread}
    if used is not None and fields.get("memory_used") is None:
        unread["memory_used"] = f"{NOT_IN_REPORT} whether the job itself uses {used // MIB} MiB"
    if not is_listed:
        unread["processes"] = UNLISTED
    return unread


def gpu_named(index: int, name: str, uuid: str | None = None, **stated: Any) -> Gpu:
    """A GPU of which a report states the name, and perhaps other fields."""
    unread = unread_fields(stated)
    return Gpu(index=index, uuid=uuid or f"GPU-{index}", name=name, unread=unread, **stated)


def cuda_of(torch: str) -> str | None:
    """ "12.8" of the version "2.8.0+cu128", "" of a build for the CPU; None if it does not tell."""
    suffix = torch.partition("+")[2]
    if match := re.match(r"cu(\d{2})(\d)\b", suffix):
        return f"{match[1]}.{match[2]}"
    return "" if re.match(r"(cpu|xpu|rocm)", suffix) else None


def hip_of(torch: str) -> str | None:
    """ "6.4" of the version "2.9.1+rocm6.4"."""
    match = re.search(r"\+rocm(\d+\.\d+(?:\.\d+)?)", torch)
    return match[1] if match else None


def system_of(platform: str) -> dict[str, Any]:
    """Fields of a reading by Python's name of the platform, "Linux-6.8.0-x86_64-with-glibc2.35"."""
    lower = platform.lower()
    system = next((name for word, name in SYSTEMS.items() if word in lower), "Linux")
    release, arch = RELEASE.match(platform), ARCH.search(platform)
    return {
        "system": system,
        "release": release[1] if release and system == "Linux" else None,
        "arch": ARCHS.get(arch[1], arch[1]) if arch else None,
    }


SYSTEMS = {"windows": "Windows", "mac": "Darwin", "darwin": "Darwin"}
ARCH = re.compile(r"\b(x86_64|aarch64|arm64|ppc64le|AMD64)\b")
ARCHS = {"AMD64": "x86_64", "arm64": "aarch64"}
RELEASE = re.compile(r"Linux-(.{1,120}?)(?:-(?:x86_64|aarch64|ppc64le))?(?:-with.*)?$")


def cuda_number(text: str | None) -> int | None:
    """ "12.4" -> 12040; None for what is no version."""
    major, dot, minor = (text or "").strip().partition(".")
    if not dot or not (major.isdecimal() and minor.isdecimal() and len(major + minor) < 6):
        return None
    return int(major) * 1000 + int(minor) * 10
