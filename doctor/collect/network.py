"""Network adapters by sysfs, and the limits of this process."""

from __future__ import annotations

import resource
from pathlib import Path

from doctor.collect.cgroups import read_names, read_text
from doctor.facts.host import Hca

LIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "nproc": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
}
"""Limits that trainings and NCCL run into."""
MOST = 64
"""Adapters, ports and devices that are read."""


def read_hcas(root: Path) -> tuple[Hca, ...] | None:
    """Ports of InfiniBand and RoCE adapters; () without any, None where sysfs is not readable."""
    if (names := read_names(root / "sys/class")) is None:
        return None
    if "infiniband" not in names:
        return ()
    adapters = read_names(root / "sys/class/infiniband")
    if adapters is None:
        return None
    return tuple(
        port for name in adapters[:MOST] for port in _ports(root / "sys/class/infiniband" / name)
    )


def _ports(adapter: Path) -> list[Hca]:
    firmware = (read_text(adapter / "fw_ver") or "").strip()
    ports = []
    for number in (read_names(adapter / "ports") or [])[:MOST]:
        port = adapter / "ports" / number
        name = adapter.name if number == "1" else f"{adapter.name}/{number}"
        # "4: ACTIVE"
        state = (read_text(port / "state") or "").rpartition(":")[2].strip()
        rate, layer = (read_text(port / file) or "" for file in ("rate", "link_layer"))
        ports.append(
            Hca(
                name=_plain(name),
                state=_plain(state),
                rate=_plain(rate.strip()),
                link_layer=_plain(layer.strip()),
                firmware=_plain(firmware),
            )
        )
    return ports


def read_mac_addresses(root: Path) -> tuple[str, ...] | None:
    """Addresses of network devices that are on a bus: bridges and tunnels repeat between hosts.

    Without those on USB: the one of a management controller has the same address on all machines.
    """
    devices = read_names(root / "sys/class/net")
    if devices is None:
        return None
    found = set()
    for name in devices[:MOST]:
        device = root / "sys/class/net" / name
        address = _plain((read_text(device / "address") or "").strip())
        on_bus = "device" in (read_names(device) or ()) and _bus(device / "device") != "usb"
        if on_bus and address.strip("0:"):
            found.add(address)
    return tuple(sorted(found))


def _bus(device: Path) -> str:
    """The subsystem of a device, as in "pci"; "" where that cannot be read."""
    try:
        return (device / "subsystem").readlink().name
    except OSError:
        return ""


def read_limits_of_process() -> dict[str, int | None]:
    """Soft limits by the names of `ulimit`; None: unlimited."""
    limits: dict[str, int | None] = {}
    for name, number in LIMITS.items():
        soft, _ = resource.getrlimit(number)
        limits[name] = None if soft == resource.RLIM_INFINITY else soft
    return limits


def _plain(text: str) -> str:
    """A name of sysfs, which a facts file takes without control characters only."""
    return "".join(letter for letter in text if letter.isprintable())
