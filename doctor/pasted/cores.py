"""How many cores a process may use, as a text shows it: nproc, affinity, quota, a container."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from doctor._util.units import counted
from doctor.facts.host import Reported
from doctor.pasted.reading import Reading

CORES_PER_GPU = 2
"""As MEM002 requires."""
CORES = (
    re.compile(r"current affinity list: ([\d,-]{1,80})$"),
    re.compile(r"\s*Cpus_allowed_list:\s*([\d,-]{1,80})$"),
)
NPROC = re.compile(r".{0,80}[$#>] nproc\s*$")
CPU_MAX = re.compile(r"(\d{3,9}) (\d{4,7})$")
LIMITED = re.compile(
    r"[\"']?limits[\"']?:\s*\{[^}]{0,80}?[\"']?cpu[\"']?:\s*[\"']?(?:(\d{1,3})|(\d{3,6})m)[\"']?[,\s}]"
)
OF_BLOCK = re.compile(r"\s*-?\s*cpu:\s*[\"']?(?:(\d{1,3})|(\d{3,6})m)[\"']?\s*$")
GRANTED = re.compile(r"nvidia\.com/gpu[\"']?:\s*[\"']?(\d{1,2})\b|gres/gpu(?::\w+)?=(\d{1,2})\b")
DOCKER = (
    (re.compile(r"\"NanoCpus\": (\d{8,13})\b"), 1e-9),
    (re.compile(r"\"CpuQuota\": (\d{4,9})\b"), 1e-5),
    (re.compile(r"\b(?:docker|podman) run\b.{0,400}--cpus[= ](\d{1,3})\b"), 1.0),
)
"""What docker inspect and a command state, and cores of its unit; 100,000 us are a period."""
PERIODS = re.compile(r"(nr_periods|nr_throttled) (\d{1,12})$")
THROTTLED, HELD_BACK = 0.25, 0.5
"""Shares of a quota's periods: bursts at the start of an epoch are fewer; a quota of any size is
too small. Our own numbers."""
GROUP = re.compile(
    r"/sys/fs/cgroup/|\b(?:cpu\.(?:max|stat|cfs_quota_us)|memory\.(?:max|events|current)|pids\.max)\b"
)
GROUP_VALUE = re.compile(r"(?:(?:max|\d{1,20})(?: \d{1,20})?|[a-z_]{2,20} \d{1,20})$")
HARDWARE = re.compile(r"hardware limits: [\d.]{1,6} [MG]Hz - ([\d.]{1,6}) ([MG]Hz)")
POLICY = re.compile(r"within [\d.]{1,6} [MG]Hz and ([\d.]{1,6}) ([MG]Hz)")
GOVERNOR = re.compile(r"The governor \"(\w{3,20})\"")
HERTZ = {"MHz": 1.0, "GHz": 1000.0}
HELD = 0.6
"""Share of the highest clock, turbo included, that a limit leaves. Our own number."""
SUGGESTED = re.compile(r"suggested max number of worker in current system is (\d{1,4})\b")
"""The DataLoader counts the cores that it may use."""


def few_cores(lines: Sequence[str], gpus: int) -> Iterator[Reported]:
    """Fewer cores than the GPUs of the job need, as the process itself counts them."""
    counts = [(_listed(match[1]), "affinity")
              for line in lines for form in CORES if (match := form.search(line))]  # fmt: skip
    counts += [(int(match[1]), "DataLoader")
               for line in lines if (match := SUGGESTED.search(line))]  # fmt: skip
    counts += [(int(value), "nproc") for line, value in pairwise(map(str.strip, lines))
               if NPROC.match(line) and value.isdecimal() and len(value) < 6]  # fmt: skip
    counts += [(number, "the quota of its cgroup") for number in _quotas(lines)]
    if not counts:
        return
    least, name = min(counts)
    granted = [int(m[1] or m[2]) for line in lines if (m := GRANTED.search(line))]
    gpus = gpus or max(granted, default=0)
    share = next(_throttled(lines), 0.0)
    if least < CORES_PER_GPU * max(gpus, 1) or share >= HELD_BACK:
        cores, job = counted(least, "usable CPU core"), counted(max(gpus, 1), "GPU")
        waits = f", which holds it back in {share:.0%} of its periods" if share >= THROTTLED else ""
        text = f"{cores} for {job} ({name}{waits})"
        yield Reported(cause="few-cores", line=text)


def read(lines: Sequence[str]) -> Reading:
    """The files of a cgroup, which `few_cores` judges: they are a report of their own."""
    shown = (GROUP.search(line) and GROUP_VALUE.match(value.strip())
             for line, value in pairwise(lines))  # fmt: skip
    return Reading(kinds=("files of a cgroup",), system="Linux") if any(shown) else Reading()


def slow_cores(lines: Sequence[str]) -> Iterator[Reported]:
    """Processors that cpupower shows held below half of what they can."""
    most, governor = 0.0, ""
    for line in lines:
        if match := HARDWARE.search(line):
            most = float(match[1]) * HERTZ[match[2]]
        elif match := GOVERNOR.search(line):
            governor = f" (governor {match[1]})"
    for line in lines:
        match = POLICY.search(line)
        limit = float(match[1]) * HERTZ[match[2]] if match else 0.0
        if match and 0 < limit < HELD * most:
            text = f"the processors are held at {match[1]} {match[2]} of {most / 1000:.2f} GHz"
            yield Reported(cause="cpu-clock-held-low", line=f"{text}{governor}")
            return


def _quotas(lines: Sequence[str]) -> Iterator[int]:
    """Cores by cpu.max of the cgroup, and by the limits of a container."""
    asked = any("cpu.max" in line for line in lines)
    for number, line in enumerate(lines):
        if asked and (match := CPU_MAX.match(line)):
            yield round(int(match[1]) / int(match[2]))
        elif match := LIMITED.search(line):
            yield int(match[1]) if match[1] else round(int(match[2]) / 1000)
        if (match := OF_BLOCK.match(line)) and _in_limits(lines, number):
            yield int(match[1]) if match[1] else round(int(match[2]) / 1000)
        for form, unit in DOCKER:
            if match := form.search(line):
                yield round(int(match[1]) * unit)


def _in_limits(lines: Sequence[str], number: int) -> bool:
    """Whether the line stands below the limits of a container, beside its GPUs."""
    above, block = lines[max(0, number - 5) : number], lines[max(0, number - 5) : number + 6]
    heading = next((line.strip().lower() for line in reversed(above) if line.endswith(":")), "")
    return heading == "limits:" and any(map(GRANTED.search, block))


def _throttled(lines: Sequence[str]) -> Iterator[float]:
    """The share of periods in which the quota was used up."""
    values = {m[1]: int(m[2]) for line in lines if (m := PERIODS.match(line))}
    if values.get("nr_periods"):
        yield values.get("nr_throttled", 0) / values["nr_periods"]


def _listed(cores: str) -> int:
    """How many numbers a list as "0-3,8" has."""
    spans = [part.partition("-") for part in cores.split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans if first.isdecimal())
