"""Errors of GPUs in the kernel log: which lines count, and what of them is kept."""

from __future__ import annotations

import os
from pathlib import Path

from doctor.collect.host import read_host
from doctor.collect.kernel_log import NVIDIAS, known_faults, read_kernel_log
from doctor.facts.host import KernelEvent
from doctor.facts.kernel_lines import events
from doctor.hardware.xids import BY_NUMBER

LOG = """\
6,900,1000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15
4,901,2000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off
6,902,3000000,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build
4,903,4000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000
 SUBSYSTEM=pci
4,904,4000001,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=4712, name=python3, Ch 00000009, intr 00000000
4,905,4000002,-;NVRM: GPU 0000:09:00.0: RmInitAdapter failed! (0x24:0x72:1513)
4,906,4000003,-;NVRM: The NVIDIA probe routine failed for 1 device(s).
4,907,4000004,-;nvidia 0000:0a:00.0: probe with driver nvidia failed with error -1
6,908,4000005,-;eth0: link up
"""


def test_errors_since_the_driver_was_loaded_last_without_names() -> None:
    found = events(LOG.splitlines())
    assert found == (
        KernelEvent(address="0000:3b:00.0", xid=31),
        KernelEvent(address="0000:09:00.0", text="RmInitAdapter failed! (0x24:0x72:1513)"),
        KernelEvent(text="The NVIDIA probe routine failed for 1 device(s)"),
        KernelEvent(address="0000:0a:00.0", text="probe with driver nvidia failed with error -1"),
    )
    assert "python3" not in repr(found)
    assert "4711" not in repr(found)


def test_what_a_probe_says_before_the_line_about_the_load_belongs_to_it() -> None:
    lines = [
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "      NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "      NVRM: fallen off the bus and is not responding to commands.",
        "NVRM: The NVIDIA probe routine failed for 1 device(s).",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build",
    ]
    assert events(lines) == (
        KernelEvent(address="0000:b3:00.0", text="GPU has fallen off the bus"),
        KernelEvent(text="The NVIDIA probe routine failed for 1 device(s)"),
    )


def test_the_last_recovery_action_holds_and_a_cleanup_names_its_cause() -> None:
    changed = (
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x{} (x)"
    )
    earlier = "NVRM: Xid (PCI:0000:3b:00): 45, pid=1, name=a, Ch 1 caused by previous Xid 149"
    fatal = "NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x0)"
    found = events([changed.format(2), earlier, fatal, changed.format(0)])
    assert [(each.xid, each.action, each.fatal) for each in found] == [
        (149, None, None), (149, None, True), (154, 0, None),
    ]  # fmt: skip


def test_every_xid_of_the_catalogue_is_read() -> None:
    lines = [
        f"4,{number},{number},-;NVRM: Xid (PCI:0000:3b:00): {number}, pid=1, name=x, text"
        for number in BY_NUMBER
    ]
    read = [event.xid for part in (lines[:60], lines[60:]) for event in events(part)]
    assert read == list(BY_NUMBER)


def test_a_log_without_end_is_cut() -> None:
    lines = (f"NVRM: Xid (PCI:0000:{number % 256:02x}:00): {number}" for number in range(1, 500))
    assert len(events(lines)) == 64


def test_the_log_is_read_where_it_may_be(tmp_path: Path) -> None:
    assert read_kernel_log(tmp_path) == {}
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text(LOG)
    assert read_host(tmp_path, {}).kernel_events == events(LOG.splitlines())
    assert os.path.exists(tmp_path / "dev/kmsg")


def test_lines_of_the_driver_that_name_a_known_fault_are_kept() -> None:
    text = "4,1,2,-;NVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)\n"
    text += "4,1,2,-;x\n4,1,2,-;pcieport 0000:00:01.0: AER: Corrected error received\n"
    kept = [each.cause for each in known_faults(text.splitlines())]
    assert kept == ["driver-module-fails", "pcie-link-errors"]
    assert not [line for line in text.splitlines()[1:] if NVIDIAS.search(line)]


def test_a_log_that_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev/kmsg")
    writer = os.open(tmp_path / "dev/kmsg", os.O_RDWR | os.O_NONBLOCK)
    try:
        assert read_kernel_log(tmp_path) == {"kernel_events": (), "reported": ()}
    finally:
        os.close(writer)
