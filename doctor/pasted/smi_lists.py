"""`nvidia-smi -L`, and `nvidia-smi --query-gpu=... --format=csv` with its header."""

from __future__ import annotations

import re

from doctor._util.units import MIB
from doctor.facts.machine import Gpu
from doctor.facts.views import USED_BYTES
from doctor.pasted.reading import Reading, gpu_named

LISTED = re.compile(r"\s*GPU (\d{1,4}): (.{3,80}?) \(UUID: (GPU-[\w-]{1,50})\)\s*$")
HEAD = re.compile(
    r"\s*(?:index|name|gpu_name|driver_version|uuid|memory\.total)\b[^|:]{0,300},[^|:]{1,300}$"
)
MEMORY = re.compile(r"(\d{1,9}) MiB$")
MOST_GPUS = 1024


def read(lines: list[str]) -> Reading:
    """The first of the two forms in the lines."""
    for number, line in enumerate(lines):
        if HEAD.match(line) and "name" in line:
            return _csv(line, lines[number + 1 : number + 1 + MOST_GPUS])
    found = [match for line in lines if (match := LISTED.match(line))]
    if not found or any("GPU models and configuration" in line for line in lines):
        return Reading()
    gpus = {int(match[1]): gpu_named(int(match[1]), match[2], match[3]) for match in found}
    return Reading(kinds=("nvidia-smi -L",), gpus=tuple(gpus[index] for index in sorted(gpus)))


def _csv(head: str, lines: list[str]) -> Reading:
    names = [name.strip().split(" ")[0] for name in head.split(",")]
    gpus: list[Gpu] = []
    drivers: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(names):
            break
        row = dict(zip(names, cells, strict=True))
        name = row.get("name") or row.get("gpu_name") or ""
        gpus.append(gpu_named(len(gpus), name, row.get("uuid"), **_stated(row)))
        drivers += [row["driver_version"]] if "driver_version" in row else []
    if not gpus:
        return Reading()
    version = drivers[0] if drivers and re.fullmatch(r"[\d.]{3,20}", drivers[0]) else None
    return Reading(kinds=("nvidia-smi --query-gpu",), driver=version, gpus=tuple(gpus))


def _stated(row: dict[str, str]) -> dict[str, object]:
    """Fields of a GPU that the row has a number for."""
    fields: dict[str, object] = {}
    if match := MEMORY.match(row.get("memory.total", "")):
        fields["memory_total"] = int(match[1]) * MIB
    match = MEMORY.match(row.get("memory.used", ""))
    if match and int(match[1]) * MIB <= USED_BYTES:
        fields["memory_used"] = int(match[1]) * MIB
    if match := re.fullmatch(r"(\d{1,2})\.(\d)", row.get("compute_cap", "")):
        fields["capability"] = int(match[1]), int(match[2])
    return fields
