"""What `nproc`, `free`, `ps`, `top`, `which` and the kernel show of a machine, where it explains
what the text complains of: single lines of them say nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from doctor._util.units import GIB
from doctor.errors.memory_numbers import OTHER_PROCESS, describe_oom, read_numbers
from doctor.facts.host import Reported
from doctor.facts.views import UNLISTED
from doctor.pasted import (
    accelerators,
    clocks,
    driver_parts,
    fabric,
    holders,
    packages,
    requirements,
    smi_load,
    starts,
    storage,
)
from doctor.pasted.cores import few_cores, slow_cores
from doctor.pasted.reading import Reading
from doctor.pasted.smi_table import FIRST, memory_of
from doctor.pasted.storage import gib_of
from doctor.pasted.torch_messages import PAST

FREE = re.compile(r"\s*Mem:\s+([\d.]+)(\w?)i?B?\s+(?:\S+\s+){4}([\d.]+)(\w?)i?B?\s*$")
SWAP = re.compile(r"\s*Swap:\s+\S+\s+([\d.]+)(\w?)i?B?\s")
LEAST_AVAILABLE = 0.02
"""Share of the host's memory. Our own number: less is gone before the page cache is given up."""

KILLED = re.compile(
    r"[Oo]ut of memory: Killed process \d{1,8} "
    r"\((\S{0,20}(?:python|pt_|torch|train|ray|deepspeed|accelerate)\S{0,20}?)\)"
)
"""Of a training; what else was killed is another matter."""
DAEMON = re.compile(
    r"\b(earlyoom|systemd-oomd)\b.{0,30}(?:sending SIG(?:TERM|KILL) to process.{0,40}"
    r"\"\S{0,20}(?:python|pt_|torch|train|ray)|: Killed /)"
)
"""It ends processes before the kernel does."""
OF_GROUP = re.compile(
    r"Memory cgroup out of memory: Kill|\bOOMKilled\b|[Dd]etected \d+ oom[-_]kill event|"
    r"constraint=CONSTRAINT_MEMCG|^oom_kill [1-9]\d{0,8}$"
)
OOM = re.compile(r"(?:CUDA out of memory.{0,120}?|\W)GPU (\d{1,3}) has a total cap")
FREE_SHARE = 0.05
"""Of a GPU's memory that is in use where nobody trains on it. Our own number."""
HOLDER = re.compile(r"Process (\d{1,8}) has ([\d.]{1,8}) GiB memory in use")
GPUSTAT = re.compile(r"\[(\d{1,2})\] .{3,60}\|.{0,40}\|\s*(\d{1,7}) /\s*(\d{1,7}) MB \|")
USED_BY = re.compile(r"\b([a-z_][\w.-]{0,31})(?::\S{1,40})?\((\d{1,7})M\)")
OPENED = re.compile(r"\s*/dev/nvidia(\d{1,3}):\s")
OPENED_BY = re.compile(r"/dev/nvidia\d{1,3}:\s+(\S{1,40})\s+(\d{1,8})\s+[.Fmfe]{4,6}\s+(\S+)")
HOLDS = re.compile(r"\s+(\S{1,40})\s+(\d{1,8})\s+[.Fmfe]{4,6}\s+(\S+)")
"""Of `fuser -v`: user, process, access, command."""
OF_DRIVER = ("nvidia-persiste", "nvidia-fabricm", "nv-hostengine", "dcgm-exporter", "nvidia-smi")
"""Beginnings of services that open every GPU and hold none of its memory; fuser cuts names off."""
PS_HEAD = re.compile(r"\s*(?:PID|USER|UID)\s+(?:\S{1,12}\s+){0,6}(?:CMD|COMMAND)\b")

SHARED = re.compile(r"[Ss]hared GPU memory\b\D{0,20}([\d.]{1,6})\s?(?:GB)?\s?/\s?[\d.]{1,6}\s?GB")
MOST_SHARED = 4.0
"""GB that Windows keeps there for its surfaces and for pinned memory. Our own number."""
LONGEST_LIST = 80
"""Lines of `ps`."""
STOLEN = re.compile(r"%Cpu\(s\):.{0,100}?([\d.]{1,5}) st\b")
MOST_STOLEN = 20.0
"""Percent. Our own number: a few are usual where vCPUs are shared."""
GPU_LISTED = re.compile(r"GPU \d{1,3}: (.{3,60}?) \(UUID: ")
OTHER_GPU = re.compile(
    r"\bwrong (?:card|GPU|one)\b|(?:other|different) (?:card|GPU) (?:than|from)|"
    r"(?:uses|picks|takes) the (?:other|slow|small)\w{0,2} (?:card|GPU|one)",
    re.IGNORECASE,
)
TIMED = re.compile(r"\btime nvidia-smi\b")
REAL = re.compile(r"\s*real\s+(\d{1,3})m([\d.]{1,7})s")
SLOW_START = 8.0
"""Seconds, as DRV001 has it."""

USER_SITE = re.compile(r"/\.local/lib/python3\.\d{1,2}/site-packages/torch/__init__")
TOOL = re.compile(r"(/\S{1,200}/bin)/(python|pip)[\d.]{0,4}$")
MISSING = re.compile(r"ModuleNotFoundError: No module named")
TORCH = re.compile(r"(?<![\w.])(\d\.\d{1,2}\.\d{1,2}(?:\+\w{2,8})?)(?![\w.])")
LISTED = re.compile(r"\s*(?:\[conda\] |\[pip3?\] )?(?:py)?torch(?:==|\s+)(\d\.\d{1,2}\.\d{1,2})\S*")


def add_tools(reading: Reading, lines: Sequence[str]) -> Reading:
    """The reading with what the tools show; their lines come first, as they say most."""
    found = [each for read in READERS for each in read(lines)]
    found += few_cores(lines, len(reading.gpus))
    found += smi_load.lowered(reading, lines)
    if any(gpu.unread.get("processes") == UNLISTED for gpu in reading.gpus):
        found += _opened(lines)
    if any(gpu.persistence is False for gpu in reading.gpus):
        found += _start(lines)
    if not found:
        return reading
    kinds = (*reading.kinds, "tools of the system")
    return replace(reading, kinds=kinds, reported=(*found, *reading.reported))


def _held(lines: Sequence[str]) -> Iterator[Reported]:
    """A process that holds a GPU's memory where the job found too little."""
    for line in lines:
        at, holder = OOM.search(line), HOLDER.search(line)
        described = describe_oom(line) if at and not holder else None
        if at and described and described.kind == OTHER_PROCESS:
            text = f"Another process{_user(lines, at[1])} holds memory of GPU {at[1]}"
            yield Reported(cause="gpu-held-by-others", line=text + _room(lines, at[1]))
            return
        if at and holder and _is_other(line, float(holder[2])):
            owner, room = _owner(lines, holder[1]), _room(lines, at[1])
            text = f"Process {holder[1]} holds {float(holder[2]):.1f} GiB of GPU {at[1]}{owner}"
            yield Reported(cause="gpu-held-by-others", line=f"{text}{room}")
            return


def _user(lines: Sequence[str], device: str) -> str:
    """Who uses most of a GPU, as gpustat prints it."""
    for line in lines:
        match = GPUSTAT.match(line)
        if match and match[1] == device:
            users = sorted(USED_BY.findall(line), key=lambda each: -int(each[1]))
            return f" of {users[0][0]} ({users[0][1]} MiB)" if users else ""
    return ""


def _is_other(line: str, held: float) -> bool:
    """Whether another process is the reason: by the whole message, or by half of the GPU's memory
    where the line only quotes it."""
    if described := describe_oom(line):
        return described.kind == OTHER_PROCESS
    numbers = read_numbers(line)
    return numbers.request is None and held * GIB >= 0.5 * (numbers.capacity or held * GIB * 3)


def _room(lines: Sequence[str], device: str) -> str:
    """The GPUs that nvidia-smi's table shows nearly empty."""
    listed = [*memory_of(lines), *((m[1], int(m[2]), int(m[3]))
                                   for line in lines if (m := GPUSTAT.match(line)))]  # fmt: skip
    free = [number for number, used, total in listed
            if number != device and used < FREE_SHARE * total]  # fmt: skip
    return f"; GPU {', '.join(free)} is free (CUDA_VISIBLE_DEVICES={free[0]})" if free else ""


def _opened(lines: Sequence[str]) -> Iterator[Reported]:
    """Processes that fuser or lsof finds on a GPU of which nvidia-smi lists no process."""
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    device = ""
    for line in lines:
        device = match[1] if (match := OPENED.match(line)) else device
        row = OPENED_BY.search(line) if match else HOLDS.match(line) if device else None
        if row is None:
            device = device if match else ""
        elif device and not row[3].startswith(OF_DRIVER):
            users, pids = found.setdefault(device, ({}, {}))
            users[row[1]], pids[row[2]] = None, None
    for device, (users, pids) in found.items():
        text = f"Process {', '.join(pids)} of {','.join(users)} has /dev/nvidia{device} open"
        yield Reported(cause="gpu-held-by-others", line=f"{text}, and nvidia-smi lists none")


def _owner(lines: Sequence[str], pid: str) -> str:
    """Whose process it is, if a list of processes in the text has it."""
    head = next((n for n, line in enumerate(lines) if PS_HEAD.match(line)), None)
    if head is None:
        return ""
    names = lines[head].split()
    places = {name: names.index(name) for name in ("PID", "PPID", "USER", "UID") if name in names}
    user = places.get("USER", places.get("UID", -1))
    rows = (line.split() for line in lines[head + 1 : head + LONGEST_LIST])
    last = max(places.values())
    row = next((each for each in rows if len(each) > last and each[places["PID"]] == pid), None)
    if row is None or user < 0:
        return ""
    is_left = "PPID" in places and row[places["PPID"]] == "1"
    return f" (of {row[user]}{', left over: its parent is 1' if is_left else ''})"


def _killed(lines: Sequence[str]) -> Iterator[Reported]:
    lines = [line for line in lines if not PAST.search(line)]
    name = next((m[1] for line in lines if (m := KILLED.search(line))), None)
    daemon = next((m[1] for line in lines if (m := DAEMON.search(line))), None)
    if any(map(OF_GROUP.search, lines)):
        why = "at the memory limit of its container or job"
    elif daemon:
        why = f"by {daemon} because the machine had no memory left"
    elif name:
        why = "because the machine had no memory left"
    else:
        return
    yield Reported(cause="host-memory-killed", line=f"{name or 'a process'} was killed {why}")


def _spent(lines: Sequence[str]) -> Iterator[Reported]:
    row = next((match for line in lines if (match := FREE.match(line))), None)
    if row is None:
        return
    total, available = (gib_of(row[at] + row[at + 1]) for at in (1, 3))
    if total and available < LEAST_AVAILABLE * total:
        swap = next((m for line in lines if (m := SWAP.match(line))), None)
        swapped = f", {gib_of(swap[1] + swap[2]):.1f} GiB are swapped out" if swap else ""
        text = f"{available:.1f} of {total:.1f} GiB of the host's memory is available{swapped}"
        yield Reported(cause="host-memory-spent", line=text)


def _spilled(lines: Sequence[str]) -> Iterator[Reported]:
    shared = [float(m[1]) for line in lines if (m := SHARED.search(line))]
    if shared and max(shared) >= MOST_SHARED:
        text = f"{max(shared):g} GB of the host's memory stand in for the GPU's (shared GPU memory)"
        yield Reported(cause="windows-memory-spilled", line=text)


def _stolen(lines: Sequence[str]) -> Iterator[Reported]:
    """Time that the host of a virtual machine gives to others, as top prints it."""
    shares = [float(m[1]) for line in lines if (m := STOLEN.search(line))]
    if shares and max(shares) >= MOST_STOLEN:
        text = f"{max(shares):g} % of the virtual processors' time is stolen"
        yield Reported(cause="cpu-time-stolen", line=text)


def _in_other_order(lines: Sequence[str]) -> Iterator[Reported]:
    """A person finds another GPU behind a number, on a machine with GPUs of two kinds."""
    names = {match[1] for line in lines if (match := GPU_LISTED.match(line))}
    names |= {match[2] for line in lines if (match := FIRST.match(line))}
    if len(names) > 1 and any(map(OTHER_GPU.search, lines)):
        text = f"GPUs of {len(names)} kinds, and a number stands for another one in CUDA"
        yield Reported(cause="gpu-order-differs", line=text)


def _start(lines: Sequence[str]) -> Iterator[Reported]:
    """How long nvidia-smi took, as the shell's `time` says."""
    for number, line in enumerate(lines):
        following = lines[number + 1 : number + 40] if TIMED.search(line) else ()
        match = next((m for each in following if (m := REAL.match(each))), None)
        seconds = int(match[1]) * 60 + float(match[2]) if match else 0.0
        if seconds > SLOW_START:
            text = f"nvidia-smi takes {seconds:.0f} s, and persistence mode is off"
            yield Reported(cause="driver-starts-slowly", line=text)
            return


def _user_site(lines: Sequence[str]) -> Iterator[Reported]:
    """A torch below ~/.local where a list of the environment has another one."""
    line = next((line for line in lines if USER_SITE.search(line)), None)
    listed = next((m[1] for each in lines if (m := LISTED.match(each))), None)
    found = TORCH.search(line) if line else None
    if found and listed and not found[1].startswith(listed):
        text = f"torch {found[1]} is imported from ~/.local, before {listed} of the environment"
        yield Reported(cause="torch-of-user-site", line=text)


def _two_pythons(lines: Sequence[str]) -> Iterator[Reported]:
    """`which` names a pip and a python of two directories, and a module is not found."""
    if not any(map(MISSING.search, lines)):
        return
    found = [match for line in lines if (match := TOOL.match(line))]
    places = {match[2]: match[1] for match in reversed(found)}
    if len(places) == 2 and places["pip"] != places["python"]:
        text = f"pip is that of {places['pip']}, python that of {places['python']}"
        yield Reported(cause="pip-of-other-python", line=text)


READERS = (
    _held,
    holders.read,
    storage.read,
    _killed,
    _spent,
    _spilled,
    _stolen,
    _in_other_order,
    _user_site,
    _two_pythons,
    smi_load.table_of,
    requirements.read,
    starts.read,
    driver_parts.read,
    driver_parts.other_kernel,
    packages.without_code,
    fabric.read,
    slow_cores,
    clocks.read,
    accelerators.read,
)
"""The one that says most comes first."""
