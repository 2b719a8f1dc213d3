"""Errors of the PCIe links of NVIDIA's GPUs, and whether ACS redirects their peer traffic.

The kernel counts what the GPU and the port above it report; where it does not, there is no record.
The counters are never cleared before the next boot.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import msgspec

from doctor.collect.cgroups import read_text
from doctor.facts.host import PcieDevice

DEVICES = Path("sys/bus/pci/devices")
HARMLESS = ("Unsup", "ACS", "TOTAL", "Undefined")
"""How the names begin that are not counted: requests that a device does not know, as every search
of the bus makes them, what ACS refuses, the sum of all, and a bit without a meaning."""
EXTENDED, ACS = 0x100, 0x0D
"""Where PCIe's extended capabilities begin, and the number of access control services."""
REDIRECTS = 0x04 | 0x08
"""Bits of ACS's control: peer requests and completions go to the root complex."""
CAPABILITIES = 48
"""More than a device has: a list that goes in a circle ends."""


def read_pcie(root: Path, gpus: Iterable[str]) -> tuple[PcieDevice, ...]:
    """A record of each GPU and of the port above it, where the kernel counts their errors."""
    found: dict[str, PcieDevice] = {}
    for address in gpus:
        device = root / DEVICES / address
        try:
            port = device.resolve(strict=True).parent.name
        except OSError:
            continue
        for each in (address, port):
            if record := _read(root / DEVICES / each, each, address):
                found.setdefault(each, record)
    return tuple(found.values())


def since(
    before: tuple[PcieDevice, ...] | None, now: tuple[PcieDevice, ...]
) -> tuple[PcieDevice, ...]:
    """The records with the errors that are new."""
    earlier = {each.address: each for each in before or ()}
    return tuple(
        msgspec.structs.replace(
            each,
            new_fatal=max(0, each.fatal - earlier[each.address].fatal),
            new_nonfatal=max(0, each.nonfatal - earlier[each.address].nonfatal),
        )
        for each in now
        if each.address in earlier
    )


def _read(device: Path, address: str, gpu: str) -> PcieDevice | None:
    fatal, nonfatal = (_count(device / f"aer_dev_{kind}") for kind in ("fatal", "nonfatal"))
    if fatal is None or nonfatal is None:
        return None
    redirects = None if address == gpu else _redirects(device / "config")
    return PcieDevice(
        address=address, gpu=gpu, fatal=fatal, nonfatal=nonfatal, acs_redirects=redirects
    )


def _count(path: Path) -> int | None:
    """The sum of a list such as "Completion Timeout 0" or, in newer kernels, "CmpltTO 0"."""
    total = None
    for line in (read_text(path) or "").splitlines():
        name, _, number = line.rpartition(" ")
        if number.isdecimal():
            total = (total or 0) + (0 if name.startswith(HARMLESS) else int(number))
    return total


def _redirects(config: Path) -> bool | None:
    """Whether ACS of a port redirects peer traffic; None: only root may read that far."""
    try:
        data = config.read_bytes()
    except OSError:
        return None
    if len(data) <= EXTENDED:
        return None
    at = EXTENDED
    for _ in range(CAPABILITIES):
        if at < EXTENDED or at + 8 > len(data):
            break
        header, control = struct.unpack_from("<IxxH", data, at)
        if header & 0xFFFF == ACS:
            return bool(control & REDIRECTS)
        at = header >> 20
    return False
