"""`nvidia-smi -L`, and `nvidia-smi --query-gpu=... --format=csv`, with its header or without."""

from __future__ import annotations

import re
from dataclasses import replace

from msgspec.structs import replace as with_fields

from doctor.facts.machine import Gpu, Slice
from doctor.pasted.reading import Reading, gpu_named
from doctor.pasted.smi_gpus import gpus_of, watched_of
from doctor.pasted.smi_load import slow_of

LISTED = re.compile(r"\s*GPU (\d{1,4}): (.{3,80}?) \(UUID: (GPU-[\w-]{1,50})\)\s*$")
SLICE = re.compile(
    r"\s*MIG (\d{1,2}\w{0,2}\.\S{2,20})\s+Device\s+\d{1,3}:\s*\(UUID: (MIG-[\w/-]{1,80})\)"
)
COLUMN = re.compile(r"([a-z][a-z_0-9]{1,40}(?:\.[a-z_0-9]{1,40}){0,5})(?: \[[^\]]{1,10}\])?")
KNOWN = re.compile(
    r"(?:name|gpu_name|uuid|gpu_uuid|driver_version|compute_cap|index|count|timestamp|pstate|"
    r"serial|gpu_serial|vbios_version|compute_mode|persistence_mode|display_(?:active|mode)|"
    r"gpu_bus_id|(?:pci|pcie|ecc|memory|mig|power|clocks|temperature|utilization|remapped_rows|fan|"
    r"gom|retired_pages|clocks_(?:event|throttle)_reasons|enforced|module|gsp|c2c|fabric)\.[\w.]+)$"
)
"""Columns of --query-gpu."""
TELLING = re.compile(r"\.|name|driver_version|compute_cap")
"""One of them is in a header: an index, a count and a timestamp are in many others, too."""
COMMAND = re.compile(r"--query-gpu[= ]\"?([a-z_0-9.]{2,60}(?:,[a-z_0-9.]{2,60}){0,60})")
PROMPT = re.compile(r"[$#\u276f\u279c]\s|^(?:import|from) |^\(\w{1,30}\) \S{1,60}[:@~]")
"""The next command of a terminal, which may have as many commas as a row."""
MOST_GPUS = 1024


def read(lines: list[str]) -> Reading:
    """The first table of each header, or else the list."""
    rows: list[dict[str, str]] = []
    for number, line in enumerate(lines):
        if names := _columns(line, lines[number + 1 : number + 2]):
            for at, row in enumerate(_rows(names, lines[number + 1 : number + 1 + MOST_GPUS])):
                rows[at : at + 1] = [{**row, **rows[at]} if at < len(rows) else row]
    listed = _listed(lines)
    for row, gpu in zip(rows, listed, strict=False) if len(rows) == len(listed) else ():
        row |= {"name": row.get("name", gpu.name), "uuid": row.get("uuid", gpu.uuid)}
    if rows:
        table = _table(rows, lines)
        return replace(table, gpus=tuple(_divided(gpu, listed) for gpu in table.gpus))
    if not listed or any("GPU models and configuration" in line for line in lines):
        return Reading()
    return Reading(kinds=("nvidia-smi -L",), gpus=listed)


def _divided(gpu: Gpu, listed: tuple[Gpu, ...]) -> Gpu:
    """The GPU of the table with the instances that the list has of its number."""
    own = next((each for each in listed if each.slices and each.index == gpu.index), None)
    if own is None or gpu.slices or (gpu.name and own.name != gpu.name):
        return gpu
    return with_fields(gpu, mig=True, slices=own.slices)


def _listed(lines: list[str]) -> tuple[Gpu, ...]:
    """The GPUs of `nvidia-smi -L`, each with the MIG instances that stand below it."""
    names: dict[int, re.Match[str]] = {}
    slices: dict[int, dict[str, Slice]] = {}
    index = None
    for line in lines:
        if match := LISTED.match(line):
            index = int(match[1])
            names[index] = match
        elif index is not None and (match := SLICE.match(line)):
            part = Slice(uuid=match[2], name=f"MIG {match[1]}")
            slices.setdefault(index, {})[part.uuid] = part
    return tuple(
        gpu_named(number, match[2], match[3], mig=number in slices or None,
                  slices=tuple(slices.get(number, {}).values()))
        for number, match in sorted(names.items())
    )  # fmt: skip


def _columns(line: str, following: list[str]) -> list[str]:
    """The columns that a header names, or a command whose output has no header."""
    command = COMMAND.search(line)
    if command and following and not _header(following[0]):
        return command[1].split(",")
    return _header(line)


def _header(line: str) -> list[str]:
    if len(line) > 2000 or not TELLING.search(line):
        return []
    cells = [COLUMN.fullmatch(cell.strip()) for cell in line.split(",")]
    names = [cell[1] for cell in cells if cell]
    return names if len(names) == len(cells) and all(map(KNOWN.match, names)) else []


def _rows(names: list[str], lines: list[str]) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(names) or not all(cells) or PROMPT.search(line) or _header(line):
            break
        rows.append(dict(zip(names, cells, strict=True)))
    return rows


def _table(rows: list[dict[str, str]], lines: list[str]) -> Reading:
    """The rows as the trees that -q prints: "pcie.link.gen.max" is a path, too."""
    trees: list[tuple[str, dict[str, object]]] = [
        (
            row.get("pci.bus_id") or row.get("gpu_bus_id") or "",
            {name.replace(".", "/"): value for name, value in row.items()},
        )
        for row in rows
    ]
    versions = (row.get("driver_version", "") for row in rows)
    return Reading(
        kinds=("nvidia-smi --query-gpu",),
        driver=next((each for each in versions if re.fullmatch(r"\d[\d.]{2,20}", each)), None),
        gpus=gpus_of(trees),
        watched=watched_of(trees),
        reported=tuple(slow_of(trees, lines)),
    )
