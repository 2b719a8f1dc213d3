"""`python -m torch.utils.collect_env`, as torch 1.0 to 2.15 print it, and `vllm collect-env`."""

from __future__ import annotations

import re

from doctor.facts.machine import Gpu
from doctor.pasted.reading import ARCH, ARCHS, RELEASE, SYSTEMS, Reading, cuda_of, gpu_named

LABELS = {
    "pytorch version",
    "cuda used to build pytorch",
    "rocm used to build pytorch",
    "os",
    "python version",
    "python platform",
    "is cuda available",
    "gpu models and configuration",
    "nvidia driver version",
    "cpu(s)",
}
NOTHING = ("could not collect", "no cuda", "n/a", "none", "")
"""Values that state nothing."""

LABELED = re.compile(r"\s*([A-Za-z][\w() /-]{1,40}?)\s*:(?:\s+(.*))?$")
GPU = re.compile(r"\s*GPU (\d{1,4}): (.{1,100}?)(?: \(UUID: (GPU-[\w-]{1,50})\))?\s*$")
START = re.compile(r"\s*PyTorch version\s*: ")
MIDDLE = re.compile(r"\s*Is CUDA available\s*: ")
"""A line of every report, for those whose beginning was not copied."""
TYPED = re.compile(r"\s*PyTorch version \d[\w.+-]{1,40}$")
"""The first line as somebody typed it, before the line that follows it in a report."""


def read(lines: list[str]) -> Reading:
    """The first report in the lines."""
    starts = [
        number for number, line in enumerate(lines) if _starts(line, lines[number + 1 : number + 2])
    ]
    starts = starts or _middle(lines)
    if not starts:
        return Reading()
    # vLLM's form has the system first, 30 lines at most before torch's version.
    begin = next(
        (
            n
            for n in range(max(0, starts[0] - 30), starts[0])
            if "Collecting environment" in lines[n]
        ),
        max(0, starts[0] - 8),
    )
    report = lines[begin : starts[1] if len(starts) > 1 else None]
    values, gpus = _values(report)
    return Reading(
        kinds=("collect_env",),
        torch=(_stated(values["pytorch version"]) or "") if "pytorch version" in values else None,
        cuda=_cuda(values),
        hip=_stated(values.get("rocm used to build pytorch", "")),
        cuda_available=_yes(values.get("is cuda available", "")),
        without_nvidia=_without_nvidia(values),
        python=(_stated(values.get("python version", "")) or "").split(" ")[0] or None,
        system=_system(values),
        release=_release(values.get("python platform", "")),
        arch=_arch(values),
        cpus=_count(values.get("cpu(s)", "")),
        driver=_stated(values.get("nvidia driver version", "")),
        nvml_error=_no_driver(values),
        gpus=gpus,
    )


def _middle(lines: list[str]) -> list[int]:
    """Where a report without its beginning says whether CUDA is available, before its GPUs."""
    return [
        number
        for number, line in enumerate(lines)
        if MIDDLE.match(line)
        and any("GPU models and configuration" in each for each in lines[number + 1 : number + 6])
    ]


def _starts(line: str, following: list[str]) -> bool:
    typed = TYPED.match(line) and following and "Is debug build" in following[0]
    return bool(START.match(line) or typed)


def _values(report: list[str]) -> tuple[dict[str, str], tuple[Gpu, ...]]:
    """Label in lower case -> its first value, and the GPUs in the order of their numbers."""
    values: dict[str, str] = {}
    gpus: dict[int, Gpu] = {}
    for line in report:
        text = line
        if TYPED.match(line):
            values.setdefault("pytorch version", line.split()[-1])
        if match := LABELED.match(line):
            label = match[1].lower()
            if label in LABELS:
                values.setdefault(label, (match[2] or "").strip())
            if label == "gpu models and configuration":
                text = match[2] or ""
        if gpu := GPU.match(text):
            index = int(gpu[1])
            gpus.setdefault(index, gpu_named(index, gpu[2], gpu[3]))
    names = _stated(values.get("gpu models and configuration", ""))
    if not gpus and names:  # before torch 1.2, and on ROCm: the name alone
        gpus[0] = gpu_named(0, names)
    return values, tuple(gpus[index] for index in sorted(gpus))


def _stated(value: str) -> str | None:
    return None if value.strip().lower() in NOTHING else value.strip()


def _cuda(values: dict[str, str]) -> str | None:
    """The CUDA of the build; "" if torch is built without, None if the report does not tell."""
    version = values.get("pytorch version", "N/A")
    if version.upper() == "N/A":
        return None
    if "cuda used to build pytorch" not in values:
        return cuda_of(version)
    value = _stated(values["cuda used to build pytorch"])
    if _stated(values.get("rocm used to build pytorch", "")):
        return ""
    return ".".join(value.split(".")[:2]) if value else ""


def _yes(value: str) -> bool | None:
    return {"true": True, "yes": True, "false": False, "no": False}.get(value.strip().lower())


def _without_nvidia(values: dict[str, str]) -> bool:
    fields = ("gpu models and configuration", "nvidia driver version")
    return all(values.get(field, "").lower() == "no cuda" for field in fields)


def _no_driver(values: dict[str, str]) -> str | None:
    """collect_env reads the driver's version from nvidia-smi."""
    value = values.get("nvidia driver version")
    if value is None or _stated(value) or _without_nvidia(values):
        return None
    if _yes(values.get("is cuda available", "")) or values.get("pytorch version") == "N/A":
        return None
    return f"collect_env could not read the driver's version from nvidia-smi: {value or 'empty'}"


def _system(values: dict[str, str]) -> str | None:
    os = _stated(values.get("os", "")) or _stated(values.get("python platform", ""))
    if os is None:
        return None
    return next((system for word, system in SYSTEMS.items() if word in os.lower()), "Linux")


def _release(platform: str) -> str | None:
    match = RELEASE.match(platform)
    return match[1] if match else None


def _arch(values: dict[str, str]) -> str | None:
    for label in ("os", "python platform", "python version"):
        if match := ARCH.search(values.get(label, "")):
            return ARCHS.get(match[1], match[1])
    return None


def _count(value: str) -> int | None:
    return int(value) if value.isdecimal() and 0 < len(value) < 6 else None
