"""From which clock the kernel reads the time, and governors and modes that hold clocks low."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from doctor.facts.host import Reported
from doctor.pasted.smi_load import SLOWER

CURRENT = re.compile(r"current_clocksource\b|\{current,available\}_clocksource")
SWITCHED = re.compile(r"\bclocksource: Switched to clocksource (\w[\w-]{1,40})")
UNSTABLE = re.compile(r"Marking (?:clocksource 'tsc'|TSC) (?:as )?unstable")
SOURCE = re.compile(r"(?:current_clocksource:?\s*)?(hpet|acpi_pm|jiffies|pit)\s*$")
SLOW_SOURCES = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")

ASKED = re.compile(r"\bscaling_(driver|governor)\b")
NAME = re.compile(r"\s*(?:\d{1,4}\s+)?(?:\S{1,80}scaling_\w{4,10}:)?([a-z][a-z_-]{2,20})\s*$")
DRIVER = re.compile(r"\s*driver: (\S{3,20})\s*$")
GOVERNOR = re.compile(r"The governor \"(\w{3,20})\"")
FIXED = ("acpi-cpufreq", "intel_cpufreq", "cppc_cpufreq", "pcc-cpufreq", "amd-pstate")
"""With these powersave is the lowest clock; with intel_pstate and amd-pstate-epp the processor
chooses."""
MEGAHERTZ = re.compile(r"\s*(?:\d{1,4}\s+)?cpu MHz\s*:\s*(\d{3,5})")
MOST = re.compile(r"hardware limits: [\d.]{1,6} [MG]Hz - ([\d.]{1,6}) ([MG]Hz)|"
                  r"CPU max MHz:\s*([\d.]{3,10})")  # fmt: skip
LOAD = re.compile(r"load average: ([\d.]{1,7})")
BUSY = 4.0
"""Processes that compute. Our own number: fewer leave most of the processors idle."""
HELD = 0.4
"""Share of the highest clock. Our own number: with all cores at work it is above a half."""

JETSON_MODE = re.compile(r"\bNV Power Mode: ?([A-Z0-9_]{2,30})")


def read(lines: Sequence[str]) -> Iterator[Reported]:
    """What makes all programs of the machine slow."""
    yield from _source(lines)
    yield from _governor(lines)
    yield from _jetson(lines)


def _source(lines: Sequence[str]) -> Iterator[Reported]:
    """The clock that is asked for, else the one to which the kernel switched last."""
    asked = [match[1] for line, value in pairwise(lines)
             if CURRENT.search(line) and (match := SOURCE.match(value))]  # fmt: skip
    is_asked = any(map(CURRENT.search, lines))
    switched = [match[1] for line in lines if (match := SWITCHED.search(line))]
    # While it boots, the kernel uses hpet until it has measured tsc.
    is_lost = any(map(UNSTABLE.search, lines)) or "tsc" in switched[:-1]
    found = asked[:1] if is_asked else switched[-1:] if is_lost else []
    if found and found[0] in SLOW_SOURCES:
        name = found[0].removeprefix("refined-")
        text = f"the kernel reads the time from {name}, not from the processor (tsc)"
        yield Reported(cause="clock-source-slow", line=text)


def _governor(lines: Sequence[str]) -> Iterator[Reported]:
    """A governor that is the lowest clock, or all cores near it while they compute."""
    known: dict[str, str] = {}
    for line, value in pairwise([*lines, ""]):
        if (match := ASKED.search(line)) and (name := NAME.match(value)):
            known.setdefault(match[1], name[1])
        for part, form in (("driver", DRIVER), ("governor", GOVERNOR)):
            if match := form.match(line) if part == "driver" else form.search(line):
                known.setdefault(part, match[1])
    if known.get("governor") == "powersave" and known.get("driver") in FIXED:
        text = "the processors are held at their lowest clock"
        text = f"{text} (governor powersave of {known['driver']})"
        yield Reported(cause="cpu-clock-held-low", line=text)
        return
    clocks = [int(match[1]) for line in lines if (match := MEGAHERTZ.match(line))]
    most = max((_megahertz(match) for line in lines if (match := MOST.search(line))), default=0)
    load = max((float(match[1]) for line in lines if (match := LOAD.search(line))), default=0)
    if clocks and load >= BUSY and max(clocks) < HELD * most:
        text = f"the processors are held at {max(clocks)} MHz of {most / 1000:.2f} GHz"
        yield Reported(cause="cpu-clock-held-low", line=f"{text} at a load of {load:g}")


def _megahertz(match: re.Match[str]) -> float:
    if match[3]:
        return float(match[3])
    return float(match[1]) * (1000 if match[2] == "GHz" else 1)


def _jetson(lines: Sequence[str]) -> Iterator[Reported]:
    """The power mode of a Jetson of which somebody says that it is slow."""
    modes = [match[1] for line in lines if (match := JETSON_MODE.search(line))]
    if modes and not modes[-1].startswith("MAXN") and any(map(SLOWER.search, lines)):
        text = f"the Jetson's power mode is {modes[-1].removeprefix('MODE_')}, not MAXN"
        yield Reported(cause="jetson-power-mode", line=text)
