"""The table of `nvidia-smi`, and what it prints instead when it fails."""

from __future__ import annotations

import re
from typing import Any

from doctor._util.units import MIB
from doctor.facts.machine import Gpu
from doctor.facts.views import USED_BYTES
from doctor.pasted.reading import NOT_IN_REPORT, Reading, cuda_number

HEAD = re.compile(
    r"\s*\|\s*NVIDIA-SMI [\d.]{3,20}\s+Driver Version: ([\d.]{3,20})"
    r"(?:\s+CUDA Version: ([\d.]{3,8}|N/A|ERR!))?"
)
FIRST = re.compile(
    r"\s*\|\s*(\d{1,4})\s+(.{3,60}?)\s+(On|Off|WDDM|TCC|MCDM|N/A|ERR!)\s*\|"
    r"\s*([\dA-Fa-f]{4,8}:[\dA-Fa-f]{2}:[\dA-Fa-f]{2}\.\d)\s+(On|Off|N/A)\s*\|\s*(\S{1,12})"
)
MEMORY = re.compile(r"\|\s*(\d{1,9})Mi?B\s*/\s*(\d{1,9})Mi?B\s*\|")
MODE = re.compile(r"\|\s*(?:\d{1,3}%|N/A|ERR!)\s+(Default|E\. Process|Prohibited)\s*\|")
MIG = re.compile(r"\|\s*(Disabled|Enabled)\*?\s*\|\s*$")
MODES = {"Default": 0, "Prohibited": 2, "E. Process": 3}

ERRORS = (
    ("Driver/library version mismatch", 18),
    ("couldn't communicate with the NVIDIA driver", 9),
    ("Driver Not Loaded", 9),
    ("Insufficient Permissions", 4),
    ("NVIDIA-SMI couldn't find libnvidia-ml", 12),
    ("Not Found", 6),
)
"""What nvidia-smi prints -> NVML's code."""

FAILED = re.compile(
    r"\s*(Failed to initialize NVML: .{3,100}|NVIDIA-SMI has failed because .{3,160}|"
    r"NVIDIA-SMI couldn't .{3,160})"
)
NO_DEVICES = re.compile(r"\s*No devices were found\s*$")
NOT_STARTED = re.compile(r": Not Found\W*$")
"""The kernel module did not start the GPU, as of a kind that it does not support."""
NO_HANDLE = re.compile(
    r"\s*[\"*]{0,3}(Unable to determine the device handle for (?:GPU|gpu) ?\d{0,3}:? ?"
    r"([\dA-Fa-f]{3,8}:[\dA-Fa-f]{2}:[\dA-Fa-f]{2}\.\d): .{3,120})"
)


def read(lines: list[str]) -> Reading:
    """The first table in the lines, and errors anywhere."""
    head = next((n for n, line in enumerate(lines) if HEAD.match(line)), None)
    gpus, driver, number = _table(lines, head) if head is not None else ([], None, None)
    handles = [match for line in lines if (match := NO_HANDLE.match(line))]
    lost = [_lost(match[1], match[2]) for match in handles if not NOT_STARTED.search(match[1])]
    gpus += list({gpu.bus_id: gpu for gpu in lost}.values())
    failures = [match for line in lines if (match := FAILED.match(line))]
    failures += [match for match in handles if NOT_STARTED.search(match[1])]
    error = next((match[1].strip(' "*') for match in failures), None)
    no_devices = any(NO_DEVICES.match(line) for line in lines)
    if head is None and not gpus and error is None and not no_devices:
        return Reading()
    return Reading(
        kinds=("nvidia-smi",),
        driver=driver,
        driver_cuda=number,
        nvml_error=error,
        nvml_code=next((code for text, code in ERRORS if text in (error or "")), None),
        no_cuda_library="CUDA Version: ERR!" in lines[head] if head is not None else None,
        no_devices=no_devices and not gpus,
        gpus=tuple(gpus),
    )


def _table(lines: list[str], head: int) -> tuple[list[Gpu], str | None, int | None]:
    match = HEAD.match(lines[head])
    assert match is not None, "the caller found the head"
    gpus: list[Gpu] = []
    row: list[str] = []
    for line in lines[head + 1 :]:
        if "Processes:" in line or "Compute processes" in line or HEAD.match(line):
            break
        if FIRST.match(line) and row:
            gpus.append(_gpu(row))
            row = []
        if FIRST.match(line) or (row and len(row) < 4):
            row.append(line)
    if row:
        gpus.append(_gpu(row))
    return gpus, match[1], cuda_number(match[2])


def _gpu(row: list[str]) -> Gpu:
    """One GPU of two or three lines."""
    first = FIRST.match(row[0])
    assert first is not None, "a row begins with its first line"
    rest = "\n".join(row[1:])
    memory, mode = MEMORY.search(rest), MODE.search(rest)
    mig = next((m[1] for line in row[2:3] if (m := MIG.search(line))), None)
    used = int(memory[1]) * MIB if memory else None
    ecc = first[6]
    fields: dict[str, Any] = {
        "memory_total": int(memory[2]) * MIB if memory else None,
        "memory_used": used if used is not None and used <= USED_BYTES else None,
        "compute_mode": MODES[mode[1]] if mode else None,
        "display_active": {"On": True, "Off": False}.get(first[5]),
        "persistence": {"On": True, "Off": False}.get(first[3]),
        "mig": {"Enabled": True, "Disabled": False}.get(mig or ""),
        "ecc": True if ecc.isdecimal() else False if ecc == "Off" else None,
        "uncorrected": int(ecc) if ecc.isdecimal() else None,
    }
    name = re.sub(r"\s*\.\.\.$", "...", first[2].strip())
    return Gpu(
        index=int(first[1]),
        uuid=f"GPU-{first[1]}",
        name=name,
        bus_id=first[4],
        unread=_unread(fields, used),
        **fields,
    )


def _unread(fields: dict[str, Any], used: int | None) -> dict[str, str]:
    every = set(Gpu.__struct_fields__) - {"index", "uuid", "name", "bus_id", "unread", "slices"}
    unread = {name: NOT_IN_REPORT for name in sorted(every) if fields.get(name) is None}
    if used is not None and fields["memory_used"] is None:
        unread["memory_used"] = f"{NOT_IN_REPORT} whether the job itself uses {used // MIB} MiB"
    return unread


def _lost(error: str, bus_id: str) -> Gpu:
    return Gpu(index=0, uuid="", name="", bus_id=bus_id, lost=error.strip(' "*'))
