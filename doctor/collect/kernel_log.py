"""Errors that the NVIDIA driver wrote into the kernel log since it was loaded.

Read from /dev/kmsg without waiting, where this user may read it; no command is started. Only lines
of the forms below are kept, and of them only the address, the number and the code: Xid lines also
contain ids and names of processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from doctor.facts.machine import KernelEvent

MOST_BYTES = 16 * 2**20
"""More than any kernel keeps."""
MOST_EVENTS = 64
LOADED = re.compile(r"NVRM: loading NVIDIA UNIX")
ADDRESS = r"(?:PCI:)?(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
XID = re.compile(rf"NVRM: Xid \({ADDRESS}\): (?P<xid>\d{{1,4}})\b")
ERRORS = (
    re.compile(rf"NVRM: GPU {ADDRESS}: (?P<text>RmInitAdapter failed! \([^)\s]{{1,60}}\))"),
    re.compile(rf"NVRM: GPU {ADDRESS}: (?P<text>GPU has fallen off the bus)"),
    re.compile(rf"nvidia {ADDRESS}: (?P<text>probe with driver nvidia failed with error -\d+)"),
    re.compile(rf"NVRM: The (?P<text>NVIDIA GPU) {ADDRESS} \(PCI ID"),
    re.compile(rf"NVRM: (?P<text>BAR\d is \d+M @ \w+) \({ADDRESS}\)"),
    re.compile(r"NVRM: (?P<text>The NVIDIA probe routine failed for \d+ device\(s\))"),
)

WORDS = {"NVIDIA GPU": "not supported by this driver, as the driver says"}
"""What a line says whose sentence goes on in the next."""


def read_kernel_log(root: Path = Path("/")) -> tuple[KernelEvent, ...] | None:
    """The errors, oldest first; None if the log cannot be read."""
    try:
        file = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        text = b"".join(_records(file)).decode("utf-8", "replace")
    finally:
        os.close(file)
    return events(text)


def _records(file: int) -> Iterator[bytes]:
    """What can be read without waiting."""
    total = 0
    while total < MOST_BYTES:
        try:
            record = os.read(file, 8192)
        except BrokenPipeError:
            continue  # the kernel overwrote a record meanwhile
        except OSError:
            return
        if not record:
            return
        total += len(record)
        yield record


def events(text: str) -> tuple[KernelEvent, ...]:
    """The errors in lines of a kernel log since the driver was loaded last."""
    found: list[KernelEvent] = []
    for line in text.splitlines():
        if LOADED.search(line):
            found = []
        elif "NVRM" in line or "nvidia" in line:
            event = _event(line)
            if event and event not in found and len(found) < MOST_EVENTS:
                found.append(event)
    return tuple(found)


def _event(line: str) -> KernelEvent | None:
    if match := XID.search(line):
        return KernelEvent(address=address(match["address"]), xid=int(match["xid"]))
    for pattern in ERRORS:
        if match := pattern.search(line):
            parts = match.groupdict()
            text = WORDS.get(parts["text"], parts["text"])
            return KernelEvent(address=address(parts.get("address") or ""), text=text)
    return None


def address(text: str) -> str:
    """ "00000000:3B:00" of NVML or of an Xid as sysfs spells it: "0000:3b:00.0"."""
    if not text:
        return ""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest if '.' in rest else rest + '.0'}"
