"""Verdicts of other tools: `dcgmi diag`, NVIDIA Health Validation, and tools without a fault.

Of `nvidia-smi topo -m` nothing is judged: which links the job needs is not in it.
"""

from __future__ import annotations

import json
import re

from doctor.facts.machine import Gpu
from doctor.pasted.reading import Reading, gpu_named

DCGM = re.compile(r"\s*\|\s*Diagnostic\s*\|\s*Result\s*\|")
ROW = re.compile(r"\s*\|\s*([A-Za-z][\w /-]{2,40}?)\s*\|\s*(\S.{0,80}?)\s*\|")
OF_GPU = re.compile(r"\s*\|\s*\|\s*(?:GPU ?(\d{1,4}): Fail|Fail - GPUs?: ?(\d{1,4}))\s*\|")
WARNED = re.compile(r"GPU ?(\d{1,4})\b")
GPUS = re.compile(r"GPUs?:? ?([\d, ]{1,60})")
HARDWARE = (
    "memory", "gpu memory", "pcie", "sm stress", "targeted stress", "targeted power", "diagnostic",
    "memory bandwidth", "memtest", "pulse test", "nvbandwidth", "page retirement/row remap",
)  # fmt: skip
"""DCGM's tests of the hardware; those of the deployment are about software."""

HEALTH = re.compile(r"\|\s*Health Monitor Report\b")
OF_HEALTH = re.compile(r"\|\s*-> (\d{1,4})\s*\|\s*Failure\b")
SYSTEM = re.compile(r"\|\s*-> ([A-Z][\w ]{2,30}?)\s*\|\s*Failure\b")
VERDICT = re.compile(r'"overall_severity"\s*:\s*"(PASS|INFO|WARNING|CRITICAL|UNKNOWN)"', re.I)
OF_GPUS = ("gpu", "xid", "nvlink")
LONGEST = 2**20
UUID = re.compile(r"GPU-[\w-]{8,50}")
MOST_GPUS = 1024

OTHERS = {"nvidia-smi topo -m": re.compile(r"\s*GPU0\s+X\s+(?:NV\d|PIX|PXB|PHB|NODE|SYS)")}


def read(lines: list[str]) -> Reading:
    """The first of each tool; the GPUs on which a test of the hardware failed."""
    kinds = [kind for kind, sign in OTHERS.items() if any(sign.match(line) for line in lines)]
    gpus: dict[str, str] = {}
    driver = None
    if any(DCGM.match(line) for line in lines):
        kinds.append("dcgmi diag")
        driver, gpus = _detected(lines), _dcgm(lines)
    if any(HEALTH.search(line) for line in lines):
        kinds.append("dcgmi health")
        gpus |= _dcgm_health(lines)
    if any(VERDICT.search(line) for line in lines):
        kinds.append("NVIDIA Health Validation")
        gpus |= _node_verdict("\n".join(lines)[:LONGEST])
    if not kinds:
        return Reading()
    return Reading(kinds=tuple(kinds), driver=driver, gpus=_gpus(gpus))


def _gpus(failed: dict[str, str]) -> tuple[Gpu, ...]:
    """One record for each GPU that failed: by UUID, or by its number."""
    records = []
    for number, (key, text) in enumerate(list(failed.items())[:MOST_GPUS]):
        index = int(key) if key.isdecimal() else number
        uuid = key if UUID.fullmatch(key) else None
        records.append(gpu_named(index, "", uuid, diagnosed=text))
    return tuple(records)


def _detected(lines: list[str]) -> str | None:
    """The driver's version."""
    rows = filter(None, map(ROW.match, lines))
    return next((row[2] for row in rows if row[1] == "Driver Version Detected"), None)


def _dcgm(lines: list[str]) -> dict[str, str]:
    """The GPUs with a failed test of the hardware; "" where none is named."""
    test = ""
    failed: dict[str, str] = {}
    for line in lines:
        if match := ROW.match(line):
            label, result = match[1].lower(), match[2]
            if label in ("warning", "error"):
                named = WARNED.match(result)
                if named and "" in failed:
                    failed.setdefault(named[1], failed.pop(""))
                continue
            test = label
            if result.startswith("Fail") and test in HARDWARE:
                numbers = GPUS.search(result)
                for each in re.findall(r"\d+", numbers[1]) if numbers else ("",):
                    failed.setdefault(each, f"dcgmi diag: {match[1]} failed")
        elif (match := OF_GPU.match(line)) and test in HARDWARE:
            failed.pop("", None)
            failed.setdefault(match[1] or match[2], f"dcgmi diag: {test} failed")
    return failed


def _dcgm_health(lines: list[str]) -> dict[str, str]:
    """The GPUs that DCGM watches and calls failed, with the failed part."""
    failed: dict[str, str] = {}
    index = ""
    for line in lines:
        if match := OF_HEALTH.search(line):
            index = match[1]
            failed.setdefault(index, "dcgmi health: failure")
        elif index and (match := SYSTEM.search(line)):
            failed[index] = f"dcgmi health: failure of {match[1].lower()}"
    return failed


def _node_verdict(text: str) -> dict[str, str]:
    """GPUs of components whose severity is CRITICAL."""
    verdict = _decoded(text)
    failed: dict[str, str] = {}
    for part in _dicts(verdict.get("affected_components")):
        if str(part.get("max_severity")).upper() != "CRITICAL":
            continue
        if str(part.get("category")).lower() not in OF_GPUS:
            continue
        checks = ", ".join(str(each)[:60] for each in _list(part.get("check_ids"))[:4])
        said = f"NVIDIA Health Validation: CRITICAL: {checks}"
        for entity in _list(part.get("entities"))[:MOST_GPUS] or [""]:
            name = UUID.search(str(entity)) or re.search(r"\d{1,4}", str(entity))
            failed.setdefault(name[0] if name else "", said)
    return failed


def _decoded(text: str) -> dict[str, object]:
    """The object with the verdict, {} if it was cut off."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text[text.find("{") :])
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _dicts(value: object) -> list[dict[str, object]]:
    return [each for each in _list(value) if isinstance(each, dict)]
