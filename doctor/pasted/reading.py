"""What pasted reports state, before it becomes facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from doctor.facts.load import Watched
from doctor.facts.machine import Gpu

NOT_IN_REPORT = "the report does not tell"
"""How the reason of a section begins that no report contains."""


class ReportError(ValueError):
    """A report that is refused; the text states why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Fields that a report does not contain are None or empty."""

    kinds: tuple[str, ...] = ()
    """The reports that were recognized: collect_env, nvidia-smi, nvidia-smi -q, ds_report."""
    torch: str | None = None
    """torch's version; "" where torch could not be imported."""
    cuda: str | None = None
    """The CUDA that torch was built for; "" for none."""
    hip: str | None = None
    cuda_available: bool | None = None
    without_nvidia: bool | None = None
    """collect_env found neither a driver nor a GPU nor a toolkit, and prints No CUDA."""
    cuda_error: str | None = None
    """torch's warning, where CUDA did not start."""
    import_error: str | None = None
    """The ImportError of torch's own libraries."""
    gpu_error: str | None = None
    """A CUDA error that only broken hardware causes."""
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
    watched: tuple[Watched, ...] = ()

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
    values["kinds"] = tuple(kind for reading in stating for kind in reading.kinds)
    values["gpus"] = max((reading.gpus for reading in stating), key=_detail)
    values |= {name: values[name] or () for name in ("archs", "watched")}
    return Reading(**values)


def _detail(gpus: tuple[Gpu, ...]) -> tuple[int, int]:
    """How many of the GPUs' fields are stated, and how many GPUs."""
    return sum(len(gpu.__struct_fields__) - len(gpu.unread) for gpu in gpus), len(gpus)


def cuda_number(text: str | None) -> int | None:
    """ "12.4" -> 12040; None for what is no version."""
    major, dot, minor = (text or "").strip().partition(".")
    if not dot or not (major.isdecimal() and minor.isdecimal() and len(major + minor) < 6):
        return None
    return int(major) * 1000 + int(minor) * 10
