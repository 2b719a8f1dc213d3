"""The table of `nvidia-smi`, and what it prints instead when it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from doctor._util.units import MIB
from doctor.facts.machine import Gpu, Slice
from doctor.facts.views import USED_BYTES
from doctor.pasted.reading import Reading, cuda_number, unread_fields

HEAD = re.compile(
    r"\s*(?!\s)\|?\s*NVIDIA-SMI (?P<tool>[\d.]{3,20})\s+"
    r"(?:Driver|KMD) Version: (?P<driver>[\d.]{3,20})"
    r"(?:\s+CUDA(?: UMD)? Version: (?P<cuda>[\d.]{3,8}|N/A|ERR!))?"
)
"""Drivers since 610 print KMD for the kernel's and UMD for the user's part."""
ANY_HEAD = re.compile(r"\s*(?!\s)\|?\s*NVIDIA-SMI\s+v?[\d.]{3,20}\b(.{0,120})")
FIRST = re.compile(
    r"\s*\|\s*(\d{1,4})\s+(.{3,60}?)\s+(On|Off|WDDM|TCC|MCDM|N/A|ERR!)\s*\|"
    r"\s*([\dA-Fa-f]{4,8}:[\dA-Fa-f]{2}:[\dA-Fa-f]{2}\.\d)\s+(On|Off|N/A|ERR!)\s*\|\s*(\S{1,12})"
)
MEMORY = re.compile(r"\|\s*(\d{1,9})Mi?B\s*/\s*(\d{1,9})Mi?B\s*\|")
MODE = re.compile(r"\|\s*(?:\d{1,3}%|N/A|ERR!)\s+(Default|E\. Process|Prohibited)\s*\|")
READINGS = re.compile(
    r"\s*\|\s*(?P<fan>\S{1,8})\s+(?P<temperature>\S{1,8})\s+(?P<performance>\S{1,8})\s+(?P<power>\S{1,8})\s*/"
    r"[^|]{1,30}\|\s*(?P<memory>[^\s|]{1,14})\s*(?:/[^|]{1,24})?\|\s*(?P<utilization>\S{1,8})\s"
)
"""The second line of a GPU."""
MIG = re.compile(r"\|\s*(Disabled|Enabled|ERR!)\*?\s*\|\s*$")
INSTANCE = re.compile(
    r"\s*\|\s*(\d{1,4})\s+(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})\s*\|\s*\d{1,9}Mi?B\s*/\s*(\d{1,9})Mi?B"
)
"""GPU, GPU instance, compute instance, number and memory of a MIG device."""
PROCESS = re.compile(r"\s*\|\s*\d{1,4}\s+(?:(?:N/A|\d{1,3})\s+){0,2}\d{1,9}\s")
IDLE = re.compile(r"\|\s*0%\s+\S")
MISSED = re.compile(
    r"out ?of ?memory|\bOOM\b|\bno (?:running |other )?process|(?:memory|VRAM)\b.{0,60}"
    r"\b(?:not |never )(?:be )?(?:released?|freed?|cleared)|\b(?:memory|VRAM)\b.{0,40}\b"
    r"(?:still|occupied|leak|stuck)|zombie|orphan|\bfuser\b",
    re.IGNORECASE,
)
"""Somebody finds too little memory, or looks for what holds it."""
MODES = {"Default": 0, "Prohibited": 2, "E. Process": 3}

ERRORS = (
    ("Driver/library version mismatch", 18),
    ("couldn't communicate with the NVIDIA driver", 9),
    ("Driver Not Loaded", 9),
    ("Failed to initialize NVML: N/A", 9),
    ("Insufficient Permissions", 4),
    ("NVIDIA-SMI couldn't find libnvidia-ml", 12),
    ("Not Found", 6),
)
"""What nvidia-smi prints -> NVML's code."""

FAILED = re.compile(
    r"\s*(?!\s)(Failed to initialize NVML: .{3,100}|NVIDIA-SMI has failed because .{3,160}|"
    r"NVIDIA-SMI couldn't .{3,160}|.{0,80}\bnvml error: .{3,100})"
)
UNREAD, REQUIRES_RESET = "prints ERR!", "requires reset"
NO_DEVICES = re.compile(r"\s*No devices were found\s*$")
NOT_STARTED = re.compile(r": Not Found\W*$")
"""The kernel module did not start the GPU, as of a kind that it does not support."""
NO_HANDLE = re.compile(
    r"(?:.{0,120}[:\]|>] ?)?\s{0,8}[\"'*`]{0,3}"
    r"(Unable to determine the device handle for (?:GPU|gpu)"
    r"(?:(?: ?(?P<index>\d{1,3}):)? ?(?P<at>[\dA-Fa-f]{3,8}:[\dA-Fa-f]{2}:[\dA-Fa-f]{2}\.\d)|"
    r" ?(?P<number>\d{1,3})): [^\"`]{3,120})"
)
"""On a line of its own, or behind a colon or the brackets of a log."""
QUOTED = re.compile(
    r"\b(?:if|when(?:ever)?|was|were|used to|earlier|before|previous(?:ly)?|last|another|other|"
    r"errors? like|such as|e\.g|fixed|solved)\b",
    re.IGNORECASE,
)
"""In front of a message that somebody speaks about: it is not one of this machine now."""


def read(lines: list[str]) -> Reading:
    """The first table in the lines, and errors anywhere."""
    head = next((n for n, line in enumerate(lines) if HEAD.match(line)), None)
    odd = next((n for n, line in enumerate(lines) if ANY_HEAD.match(line)), None)
    match = HEAD.match(lines[head]) if head is not None else None
    row = next((n - 1 for n, line in enumerate(lines) if FIRST.match(line)), None)
    start = next((n for n in (head, odd, row) if n is not None), None)
    gpus = _table(lines, start, _lists_none(lines)) if start is not None else []
    handles = [
        found
        for line in lines
        if (found := NO_HANDLE.match(line)) and not QUOTED.search(line[: found.start(1)])
    ]
    lost = [_lost(found) for found in handles if not NOT_STARTED.search(found[1])]
    gpus += list({gpu.bus_id or gpu.index: gpu for gpu in lost}.values())
    failures = [found for line in lines if (found := FAILED.match(line))]
    failures += [found for found in handles if NOT_STARTED.search(found[1])]
    error = next((found[1].strip(' "*') for found in failures), None)
    no_devices = any(NO_DEVICES.match(line) for line in lines)
    if start is None and not gpus and error is None and not no_devices:
        return Reading()
    return Reading(
        kinds=("nvidia-smi" if match or odd is None else _not_understood(lines[odd]),),
        driver=match["driver"] if match else None,
        driver_cuda=cuda_number(match["cuda"]) if match else None,
        nvml_error=error,
        nvml_code=_code(error or ""),
        no_cuda_library=match["cuda"] == "ERR!" if match else None,
        no_devices=no_devices and not gpus,
        gpus=tuple(gpus),
    )


def _code(error: str) -> int | None:
    folded = error.lower()
    return next((code for text, code in ERRORS if text.lower() in folded), None)


def _not_understood(line: str) -> str:
    header = " ".join(line.strip(" |").split())[:100]
    return f"nvidia-smi with a header that is not understood ({header})"


def _lists_none(lines: list[str]) -> bool:
    """Whether the list of processes stands there, and is empty, and somebody misses the memory: in
    a container, such as that of a notebook, the list is always empty."""
    start = next((n for n, line in enumerate(lines) if "Processes:" in line), len(lines))
    rows = lines[start + 1 : start + 12]
    if not any("====" in row for row in rows) or any(map(PROCESS.match, rows)):
        return False
    return any(MISSED.search(line) for line in lines if not line.lstrip().startswith("|"))


def _table(lines: list[str], head: int, lists_none: bool) -> list[Gpu]:
    gpus: list[Gpu] = []
    row: list[str] = []
    slices: dict[int, list[Slice]] = {}
    for line in lines[head + 1 :]:
        if "Processes:" in line or "Compute processes" in line or HEAD.match(line):
            break
        if match := INSTANCE.match(line):
            part = Slice(uuid=f"MIG-{match[2]}", memory_total=int(match[5]) * MIB)
            slices.setdefault(int(match[1]), []).append(part)
        if FIRST.match(line) and row:
            gpus.append(_gpu(row, lists_none))
            row = []
        if FIRST.match(line) or (row and len(row) < 4):
            row.append(line)
    if row:
        gpus.append(_gpu(row, lists_none))
    return [replace(gpu, slices=tuple(slices.get(gpu.index, ()))) for gpu in gpus]


def memory_of(lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Number, used and total MiB of each GPU of the first table."""
    number = ""
    for line in lines:
        if match := FIRST.match(line):
            if number and int(match[1]) <= int(number):
                return
            number = match[1]
        elif number and (match := MEMORY.search(line)) and not INSTANCE.match(line):
            yield number, int(match[1]), int(match[2])


def _gpu(row: list[str], lists_none: bool = False) -> Gpu:
    """One GPU of two or three lines. `lists_none`: no process is listed."""
    first = FIRST.match(row[0])
    assert first is not None, "a row begins with its first line"
    rest = "\n".join(row[1:])
    memory, mode = MEMORY.search(rest), MODE.search(rest)
    mig = next((m[1] for line in row[2:3] if (m := MIG.search(line))), None)
    used = int(memory[1]) * MIB if memory else None
    ecc = first[6]
    # On an idle GPU without a desktop it is not the job that uses the memory.
    is_bare = first[3] in ("On", "Off") and first[5] == "Off" and mig != "Enabled"
    held = lists_none and is_bare and bool(IDLE.search(rest))
    is_known = used is not None and (used <= USED_BYTES or held)
    broken = _errors(row)
    errors = f"nvidia-smi {UNREAD} for {', '.join(broken)}" if broken else ""
    is_lost = not SENSES.isdisjoint(broken)
    is_known = is_known and not broken
    fields: dict[str, Any] = {
        "memory_total": int(memory[2]) * MIB if memory else None,
        "memory_used": used if is_known else None,
        "compute_mode": MODES[mode[1]] if mode else None,
        "display_active": {"On": True, "Off": False}.get(first[5]),
        "persistence": {"On": True, "Off": False}.get(first[3]),
        "mig": {"Enabled": True, "Disabled": False}.get(mig or ""),
        "ecc": True if ecc.isdecimal() else False if ecc == "Off" else None,
        "uncorrected": int(ecc) if ecc.isdecimal() else None,
    }
    name = re.sub(r"\s*\.\.\.$", "...", first[2].strip()).removeprefix("ERR!")
    return Gpu(
        index=int(first[1]),
        uuid=f"GPU-{first[1]}",
        name=name,
        bus_id=first[4],
        lost=errors if is_lost else None,
        diagnosed="" if is_lost else errors,
        unread=unread_fields(fields, used, is_listed=not held),
        **fields,
    )


SENSES = frozenset({"temperature", "performance", "memory", "utilization"})
"""What a GPU that answers can be asked for."""


def _errors(row: list[str]) -> list[str]:
    """What cannot be read of a GPU, where nvidia-smi prints ERR!."""
    match = next((found for line in row[1:3] if (found := READINGS.match(line))), None)
    cells = match.groupdict() if match else {}
    mig = next((m[1] for line in row[2:3] if (m := MIG.search(line))), "")
    broken = [name for name, value in {**cells, "MIG": mig}.items() if value == "ERR!"]
    # Alone they pass: Azure/azhpc-diagnostics, issue 77; NVIDIA/open-gpu-kernel-modules, 1193.
    if broken in (["power"], ["fan"], ["MIG"]):
        return []
    return broken


def _lost(found: re.Match[str]) -> Gpu:
    """The GPU that a message is about, by its number where it has one."""
    number = found["index"] or found["number"]
    gpu = Gpu(index=int(number or 0), uuid="", name="", bus_id=found["at"] or "")
    if REQUIRES_RESET in found[1]:
        return replace(gpu, recovery_action=1)
    return replace(gpu, lost=found[1].strip(' "*'))
