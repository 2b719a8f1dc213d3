"""ROCm's tools: `rocm-smi`, `amd-smi` and `rocminfo`, and what they print instead."""

from __future__ import annotations

import re

from doctor.pasted.reading import Reading, gpu_named

START = re.compile(
    r"ROCm System Management Interface|\bAMD[ -]SMI\b|ROCk module|HSA System Attributes|"
    r"\bMARKET_NAME: "
)
CONCISE = re.compile(r"\s*(\d{1,3})\s+(?:\d{1,3}\s+)?(?:0x[0-9a-f]{4},\s+\d+\s+)?[\d.]+\s?°?[cC]\b")
NUMBERED = re.compile(
    r"\s*GPU\[(\d{1,3})\]\s*:\s*(?:Card [Ss]eries|Card Series|Device Name)\s*:\s*(\S.{1,80}?)\s*$"
)
MARKET = re.compile(r"\s*MARKET_NAME: (\S.{1,80}?)\s*$")
TARGET = re.compile(
    r"\s*(?:TARGET_GRAPHICS_VERSION:|GPU\[\d{1,3}\]\s*:\s*GFX Version:)\s*(gfx\w{3,6})"
)
AGENT = re.compile(r"\s*Name:\s+(gfx\w{3,6})\s*$")
MARKETING = re.compile(r"^\s*Marketing Name:\s+(\S.{1,80}?)\s*$", re.MULTILINE)
TABLE = re.compile(
    r"\|\s*[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d\s+(?!\|)(\S.{3,40}?)\s*\|", re.IGNORECASE
)
KFD = re.compile(
    r"\s*(?!\s)(ROCk module is NOT loaded.{0,80}|Unable to open /dev/kfd.{0,100}|"
    r".{0,60}/dev/kfd.{0,20}: (?:Permission denied|No such file or directory).{0,40})"
)
NO_GPU = re.compile(r"No AMD GPUs? (?:specified|detected|found)|No agents? (?:found|detected)")
MOST_GPUS = 1024


def read(lines: list[str]) -> Reading:
    """The GPUs of the first tool in the lines, and why ROCm finds none."""
    error = next((match[1].strip() for line in lines if (match := KFD.match(line))), None)
    if error is None and not any(map(START.search, lines)) and not _agents(lines)[0]:
        return Reading()
    names, gfx = _numbered(lines), _matches(TARGET, lines)
    if not names:
        names = _matches(MARKET, lines) or _matches(TABLE, lines)
    if not names:
        names, gfx = _agents(lines)
    if not names:
        names = ["AMD GPU"] * len({match[1] for line in lines if (match := CONCISE.match(line))})
    return Reading(
        kinds=("rocm-smi",),
        amd=True,
        kfd_error=error,
        no_devices=not names and any(NO_GPU.search(line) for line in lines),
        gpus=tuple(gpu_named(index, name) for index, name in enumerate(names[:MOST_GPUS])),
        gfx=tuple(gfx[:MOST_GPUS]),
    )


def _matches(pattern: re.Pattern[str], lines: list[str]) -> list[str]:
    return [match[1] for line in lines if (match := pattern.match(line))]


def _numbered(lines: list[str]) -> list[str]:
    """`rocm-smi --showproductname` and `-a`."""
    found = {int(match[1]): match[2] for line in lines if (match := NUMBERED.match(line))}
    return [found[index] for index in sorted(found)]


def _agents(lines: list[str]) -> tuple[list[str], list[str]]:
    """rocminfo's agents that are GPUs: marketing names and architectures."""
    names, gfx = [], []
    for number, line in enumerate(lines):
        if match := AGENT.match(line):
            following = "\n".join(lines[number + 1 : number + 4])
            marketing = MARKETING.search(following)
            names.append(marketing[1] if marketing else match[1])
            gfx.append(match[1])
    return names, gfx
