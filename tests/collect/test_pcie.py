"""Errors of PCIe links and ACS, from files as sysfs has them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from doctor.collect.pcie import read_pcie, since

GPU, PORT = "0000:3b:00.0", "0000:3a:01.0"
OLDER = "Data Link Protocol 0\nCompletion Timeout {}\nUnsupported Request 7\nTOTAL_ERR 9\n"
NEWER = "DLP 0\nCmpltTO {}\nUnsupReq 7\nACSViol 2\nTOTAL_ERR 9\n"


def plant(root: Path, *, counts: str = NEWER, fatal: int = 0, config: bytes = b"") -> Path:
    """A GPU below a port, with these counters of the port and of the GPU."""
    port = root / "sys/devices/pci0000:3a" / PORT
    for device in (port, port / GPU):
        device.mkdir(parents=True, exist_ok=True)
        (device / "aer_dev_fatal").write_text(counts.format(fatal))
        (device / "aer_dev_nonfatal").write_text(counts.format(1))
        (device / "config").write_bytes(config)
    links = root / "sys/bus/pci/devices"
    links.mkdir(parents=True, exist_ok=True)
    for device in (port, port / GPU):
        link = links / device.name
        link.unlink(missing_ok=True)
        link.symlink_to(device)
    return root


def capability(number: int, following: int, control: int = 0) -> bytes:
    return struct.pack("<IHH", number | 1 << 16 | following << 20, 0, control)


@pytest.mark.parametrize("counts", [OLDER, NEWER])
def test_the_gpu_and_the_port_above_it_are_read(tmp_path: Path, counts: str) -> None:
    gpu, port = read_pcie(plant(tmp_path, counts=counts, fatal=3), [GPU])
    assert (gpu.address, port.address, port.gpu) == (GPU, PORT, GPU)
    assert (gpu.fatal, gpu.nonfatal, port.fatal) == (3, 1, 3)


def test_a_kernel_without_counters_and_a_gpu_that_is_gone_give_no_record(tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices" / GPU
    device.mkdir(parents=True)
    assert read_pcie(tmp_path, [GPU, "0000:99:00.0"]) == ()


def test_errors_that_are_new_are_told_from_old_ones(tmp_path: Path) -> None:
    before = read_pcie(plant(tmp_path, fatal=1), [GPU])
    now = read_pcie(plant(tmp_path, fatal=4), [GPU])
    assert [(each.fatal, each.new_fatal, each.new_nonfatal) for each in since(before, now)] == [
        (4, 3, 0),
        (4, 3, 0),
    ]
    assert since(None, now) == ()
    assert [each.new_fatal for each in since(now, before)] == [0, 0]


@pytest.mark.parametrize(
    ("config", "redirects"),
    [
        (bytes(64), None),
        (bytes(256), None),
        (bytes(4096), False),
        (bytes(256) + capability(1, 0x148) + bytes(64) + capability(0xD, 0, 0x1F), True),
        (bytes(256) + capability(0xD, 0, 0x11) + bytes(8), False),
        (bytes(256) + capability(1, 0x100) + bytes(8), False),
    ],
)
def test_acs_of_the_port_where_its_configuration_can_be_read(
    tmp_path: Path, config: bytes, redirects: bool | None
) -> None:
    gpu, port = read_pcie(plant(tmp_path, config=config), [GPU])
    assert (gpu.acs_redirects, port.acs_redirects) == (None, redirects)
