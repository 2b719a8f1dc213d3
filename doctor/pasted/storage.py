"""Disks and file systems as `df`, `iostat`, `dd`, `fio` and the kernel show them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from doctor.facts.host import Reported

DF_HEAD = re.compile(r"\s*Filesystem\b.{0,60}\bUse% Mounted on")
DF_ROW = re.compile(r"(\S{1,200})\s+(\S{1,8})\s+\S{1,8}\s+(\d\S{0,7})\s+(\d{1,3})%\s+(/\S{0,200})$")
INODES_HEAD = re.compile(r"\s*Filesystem\b.{0,60}\bInodes\s+IUsed\s+IFree\s+IUse%")
INODES_ROW = re.compile(
    r"\s*(\S{1,200})(?:\s+\w{2,12})?\s+[\d.]+\w?\s+[\d.]+\w?\s+0\s+100%\s+(/\S{0,200})\s*$"
)
NEVER_WRITTEN = re.compile(
    r"/dev/loop|squashfs|/snap/|iso9660|/dev/sr\d|efivar|^udev|^devtmpfs|"
    r"\s/(?:boot|run|dev|sys|proc)\b"
)
ALWAYS_WRITTEN = ("/", "/tmp", "/var", "/home", "/root")  # noqa: S108
REFUSED = re.compile(
    r"No space left on device|Errno 28\b|ENOSPC|file write failed|PytorchStreamWriter failed|"
    r"disk (?:is )?full|[Nn]o free inodes"
)
FILLED = 85
"""Percent of /dev/shm. Our own number: NCCL's and workers' segments take some GiB of hundreds."""
SIZES = {"": 1 / 1024**2, "K": 1 / 1024**2, "M": 1 / 1024, "G": 1.0, "T": 1024.0, "P": 1024.0**2}
"""GiB by the unit of df and free; without one, KiB."""
LONGEST_TABLE = 80

SERVER = re.compile(r"\bnfs: server (\S{1,80}) (not responding|OK)\b")
IOSTAT = re.compile(r"avg-cpu:\s+%user\s+%nice\s+%system\s+%iowait\b")
MOST_WAITING = 30.0
"""Percent of the processors' time. Our own number: a few cores of many that wait are normal."""
COPIED = re.compile(r"(\d{8,15}) bytes .{0,60}copied, [\d.]{1,12} s, ([\d.]{1,8}) (kB|MB|GB)/s")
MEASURED = re.compile(r"\bREAD: bw=([\d.]{1,8})(KiB|MiB|GiB)/s")
SEQUENTIAL = re.compile(r"\brw=read\b|--rw=read\b|readwrite=read\b")
RTT = re.compile(r"^read:\s+ops/s\s+kB/s\s+kB/op\s+retrans\s+avg RTT \(ms\)")
NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,3})?")
MOST_RTT = 30.0
"""Milliseconds. Our own number: a server on the local network answers in less than two."""
LEAST_RATE = 50.0
"""MB/s of files that are read in order: any disk has more, and one GPU's images need more. Our own
number."""
RATES = {"kB": 1e-3, "MB": 1.0, "GB": 1e3, "KiB": 1e-3, "MiB": 1.05, "GiB": 1074.0}


def read(lines: Sequence[str]) -> Iterator[Reported]:
    """What is full, slow or does not answer."""
    for reader in (_full, _without_inodes, _shm_filled, _servers, _waiting, _slow):
        yield from reader(lines)


def _full(lines: Sequence[str]) -> Iterator[Reported]:
    """A file system without room: that of the system, or one where the text has such an error."""
    head = next((n for n, line in enumerate(lines) if DF_HEAD.match(line)), None)
    if head is None:
        return
    refused = any(map(REFUSED.search, lines))
    table = [each.strip() for each in lines[head + 1 : head + LONGEST_TABLE]]
    rows = [match for each in table
            if (match := DF_ROW.match(each)) and not NEVER_WRITTEN.search(each)]  # fmt: skip
    room = max(rows, key=lambda row: gib_of(row[3]), default=None)
    for row in rows:
        is_full = row[4] == "100" and gib_of(row[3]) < 1 and row[5] != "/dev/shm"  # noqa: S108
        other = f"; {room[5]} has {room[3]} free" if room and room[4] != "100" else ""
        if is_full and refused:
            yield Reported(cause="disk-full", line=f"{row[5]} ({row[2]}) is full{other}")
        elif is_full and row[5] in ALWAYS_WRITTEN:
            text = f"only {row[3]} of {row[5]} ({row[2]}) are left{other}"
            yield Reported(cause="system-disk-full", line=text)


def _without_inodes(lines: Sequence[str]) -> Iterator[Reported]:
    """The file systems of `df -i` without a free inode, if the text has an error of a full one."""
    head = next((n for n, line in enumerate(lines) if INODES_HEAD.match(line)), None)
    if head is None or not any(map(REFUSED.search, lines)):
        return
    for line in lines[head + 1 : head + LONGEST_TABLE]:
        if (row := INODES_ROW.match(line)) and not NEVER_WRITTEN.search(line):
            yield Reported(cause="disk-full", line=f"{row[1]} on {row[2]} has no free inodes")


def _shm_filled(lines: Sequence[str]) -> Iterator[Reported]:
    rows = filter(None, (DF_ROW.match(line.strip()) for line in lines))
    row = next((each for each in rows if each[5] == "/dev/shm"), None)  # noqa: S108
    if row and int(row[4]) >= FILLED and gib_of(row[2]) >= 1:
        text = f"files in /dev/shm take {row[4]} % of {row[2]}"
        yield Reported(cause="shm-filled", line=text)


def gib_of(size: str) -> float:
    match = re.fullmatch(r"([\d.]{1,12})([KMGTP]?)i?B?", size)
    return float(match[1]) * SIZES[match[2]] if match else 0.0


def _servers(lines: Sequence[str]) -> Iterator[Reported]:
    """File servers of which the last line of the kernel is that they do not respond."""
    last = {match[1]: match[2] for line in lines if (match := SERVER.search(line))}
    for server, state in last.items():
        if state != "OK":
            yield Reported(
                cause="storage-not-answering", line=f"file server {server} does not respond"
            )


def _waiting(lines: Sequence[str]) -> Iterator[Reported]:
    """A processor that waits for its disks, as iostat says."""
    for head, values in pairwise(lines):
        numbers = values.split()
        waits = float(numbers[3]) if IOSTAT.search(head) and len(numbers) == 6 else 0.0
        if waits >= MOST_WAITING:
            text = f"the processors wait for storage {waits:.0f} % of the time"
            yield Reported(cause="storage-slow", line=text)
            return


def _slow(lines: Sequence[str]) -> Iterator[Reported]:
    """A file or disk that was read in order, as dd and fio measure it; NFS by nfsiostat."""
    for head, values in pairwise(lines):
        numbers = NUMBERS.findall(values) if RTT.match(head) else ()
        waits = float(numbers[5]) if len(numbers) > 6 else 0.0
        if waits >= MOST_RTT:
            text = f"files are read with {waits:.0f} ms for each request to the server"
            yield Reported(cause="storage-slow", line=text)
            return
    in_order = any(map(SEQUENTIAL.search, lines))
    for line in lines:
        match = COPIED.search(line)
        rate = (match[2], match[3]) if match and int(match[1]) >= 1e8 else None
        if in_order and (found := MEASURED.search(line)):
            rate = found[1], found[2]
        if rate and float(rate[0]) * RATES[rate[1]] < LEAST_RATE:
            text = f"files are read at {rate[0]} {rate[1]}/s; at least {LEAST_RATE:g} MB/s expected"
            yield Reported(cause="storage-slow", line=text)
            return
