"""GPUs on the bus that NVML does not list: broken, hidden or not for this driver."""

from __future__ import annotations

from typing import Any

import pytest

from doctor._util.records import Ended
from doctor.checks.gpu.bus import ALL_LISTED
from doctor.facts.host import Host
from doctor.facts.kernel_lines import events
from doctor.facts.machine import Driver, Gpu
from doctor.judge.check import Status, Verdict

OK = Ended(how="ok")
BUS = {f"0000:0{number}:00.0": "nvidia" for number in range(1, 9)}
LOST = "0000:08:00.0"
H100 = 0x2330
PROBE = """\
NVRM: The NVIDIA GPU 0000:08:00.0 (PCI ID: 10de:2330) installed in this system is not supported
NVRM: The NVIDIA probe routine failed for 1 device(s).
"""
INIT = "NVRM: GPU 0000:08:00.0: RmInitAdapter failed! (0x24:0x72:1513)"


def judged(
    bound: str = "nvidia",
    node: str | None = None,
    log: str | None = "",
    listed: int = 7,
    pci: int = H100,
    **fields: Any,
) -> Verdict:
    host = Host(
        system="Linux",
        gpu_drivers={**BUS, LOST: bound},
        gpu_ids={**dict.fromkeys(BUS, H100), LOST: pci},
        kernel_events=None if log is None else events(log.splitlines()),
        **fields,
    )
    gpus = tuple(
        Gpu(index=i, uuid=f"GPU-{i}", name="NVIDIA H100", pci_id=H100,
            bus_id=f"0000{address.upper()}")
        for i, address in enumerate(list(BUS)[:listed])
    )  # fmt: skip
    unlisted = None if node is None else {LOST: node}
    driver = Driver(nvml=OK, cuda=OK, unlisted_gpus=unlisted)
    return ALL_LISTED.judge(host=host, gpus=gpus, driver=driver)


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"listed": 8}, Status.PASS, "8 on the bus, 8 in NVML"),
        (
            {"node": ""},
            Status.FAIL,
            "0000:08:00.0 is bound to the driver and its device node opens",
        ),
        ({"node": "EIO"}, Status.FAIL, "its device node gives EIO"),
        ({"node": "", "log": INIT}, Status.FAIL, "RmInitAdapter failed! (0x24:0x72:1513)"),
        ({"bound": "", "log": PROBE}, Status.FAIL, "bound to no driver: not supported"),
        ({"bound": "", "log": INIT, "pci": 0}, Status.FAIL, "RmInitAdapter failed!"),
        # Slurm without a container: the control group refuses the node
        ({"node": "EPERM", "log": INIT}, Status.NOTE, "is hidden from this process"),
        ({"node": None}, Status.NOTE, "is not listed"),
        ({"node": None, "container": "docker"}, Status.PASS, "7 in NVML"),
        ({"bound": "vfio-pci", "log": PROBE}, Status.NOTE, "is bound to vfio-pci"),
        # an old display adapter, of which the driver says that its probe failed
        ({"bound": "", "log": PROBE, "pci": 0x128B}, Status.NOTE, "is bound to no driver"),
        ({"bound": "", "log": ""}, Status.NOTE, "is bound to no driver"),
        ({"bound": "", "log": None}, Status.NOTE, "is bound to no driver"),
    ],
)
def test_a_gpu_that_nvml_does_not_list(fields: dict[str, Any], status: Status, text: str) -> None:
    verdict = judged(**fields)
    assert verdict.status is status
    assert text in verdict.summary


def test_gpus_of_unknown_address_are_counted() -> None:
    """Slurm: NVML lists GPUs that this process may not ask about."""
    host = Host(system="Linux", gpu_drivers=BUS)
    gpus = tuple(Gpu(index=i, uuid="", name="") for i in range(8))
    driver = Driver(nvml=OK, cuda=OK)
    assert ALL_LISTED.judge(host=host, gpus=gpus, driver=driver).status is Status.PASS


def test_a_machine_without_a_bus_is_skipped() -> None:
    """WSL and Jetson have none."""
    driver = Driver(nvml=OK, cuda=OK)
    verdict = ALL_LISTED.judge(host=Host(system="Linux"), gpus=(), driver=driver)
    assert verdict.status is Status.SKIP
