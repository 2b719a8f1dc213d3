"""`nvidia-smi -L`, and `nvidia-smi --query-gpu=... --format=csv` with its header."""

from __future__ import annotations

import re

from doctor._util.units import MIB
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.facts.views import USED_BYTES
from doctor.pasted.reading import NOT_IN_REPORT, Reading, gpu_named

LISTED = re.compile(r"\s*GPU (\d{1,4}): (.{3,80}?) \(UUID: (GPU-[\w-]{1,50})\)\s*$")
HEAD = re.compile(
    r"\s*(?:index|name|gpu_name|driver_version|uuid|gpu_uuid|memory\.\w{4,5}|pci\.bus_id|pstate|"
    r"gpu_bus_id|timestamp)\b[^|:]{0,600},[^|:]{1,600}$"
)
COLUMN = re.compile(r"(?:name|driver_version|memory\.total|pcie\.link|remapped|ecc\.)")
MEMORY = re.compile(r"(\d{1,9}) MiB$")
MOST_GPUS = 1024


def read(lines: list[str]) -> Reading:
    """The first of the two forms in the lines."""
    for number, line in enumerate(lines):
        if HEAD.match(line) and COLUMN.search(line):
            return _csv(line, lines[number + 1 : number + 1 + MOST_GPUS])
    found = [match for line in lines if (match := LISTED.match(line))]
    if not found or any("GPU models and configuration" in line for line in lines):
        return Reading()
    gpus = {int(match[1]): gpu_named(int(match[1]), match[2], match[3]) for match in found}
    return Reading(kinds=("nvidia-smi -L",), gpus=tuple(gpus[index] for index in sorted(gpus)))


def _csv(head: str, lines: list[str]) -> Reading:
    names = [name.strip().split(" ")[0] for name in head.split(",")]
    gpus: list[Gpu] = []
    watched: list[Watched] = []
    drivers: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(names):
            break
        row = dict(zip(names, cells, strict=True))
        name = row.get("name") or row.get("gpu_name") or ""
        gpus.append(gpu_named(len(gpus), name, row.get("uuid"), **_stated(row)))
        watched += _linked(gpus[-1].uuid, row)
        drivers += [row["driver_version"]] if "driver_version" in row else []
    if not gpus:
        return Reading()
    version = drivers[0] if drivers and re.fullmatch(r"[\d.]{3,20}", drivers[0]) else None
    return Reading(
        kinds=("nvidia-smi --query-gpu",), driver=version, gpus=tuple(gpus), watched=tuple(watched)
    )


ERRORS = {
    "ecc.errors.uncorrected.volatile.total": "uncorrected",
    "remapped_rows.pending": "remap_pending",
    "remapped_rows.failure": "remap_failed",
    "retired_pages.pending": "retired_pages_pending",
}
YES_NO = {"Yes": True, "No": False}


def _linked(uuid: str, row: dict[str, str]) -> list[Watched]:
    """The PCIe link, where the row has its generation and width."""
    values = [row.get(f"pcie.link.{what}", "") for what in LINK]
    if not all(each.isdecimal() and len(each) < 3 for each in values):
        return []
    generation, width, most, widest = map(int, values)
    unread = {"samples": NOT_IN_REPORT}
    return [
        Watched(uuid=uuid, samples=0, mask=0, link=(generation, width), link_max=(most, widest),
                unread=unread)
    ]  # fmt: skip


LINK = ("gen.current", "width.current", "gen.max", "width.max")


def _stated(row: dict[str, str]) -> dict[str, object]:
    """Fields of a GPU that the row has a number for."""
    fields: dict[str, object] = {}
    if match := MEMORY.match(row.get("memory.total", "")):
        fields["memory_total"] = int(match[1]) * MIB
    match = MEMORY.match(row.get("memory.used", ""))
    if match and int(match[1]) * MIB <= USED_BYTES:
        fields["memory_used"] = int(match[1]) * MIB
    for name, field in ERRORS.items():
        if (text := row.get(name, "")) in YES_NO or text.isdecimal():
            fields[field] = (
                int(text)
                if text.isdecimal() and field == "uncorrected"
                else (YES_NO.get(text, text != "0"))
            )
    if match := re.fullmatch(r"(\d{1,2})\.(\d)", row.get("compute_cap", "")):
        fields["capability"] = int(match[1]), int(match[2])
    return fields
