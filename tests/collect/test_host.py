from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import get_args

import pytest

from doctor.collect.host import RECORDED, read_host
from doctor.collect.kernel import read_kernel
from doctor.hardware import vendors

LINUX = pytest.mark.skipif(platform.system() != "Linux", reason="reads procfs")
V1_UNLIMITED = "9223372036854771712\n"


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_an_empty_root_tells_nothing_and_invents_no_zeros(tmp_path: Path) -> None:
    host = read_host(tmp_path, {})
    assert host.memory_total is None
    assert host.memory_available is None
    assert host.cgroup is None
    assert host.cgroup_memory_limit is None
    assert host.cgroup_cpus is None
    assert host.shm_total is None
    assert host.kernel_driver is None
    assert host.container is None
    assert host.device_nodes == ()
    assert not host.pci_listed
    assert not host.has_nvidia


def test_addresses_are_those_of_devices_on_a_bus_other_than_usb(tmp_path: Path) -> None:
    """The USB adapter of a management controller has one address on all machines of its maker."""
    buses = {"eth0": "pci", "enx0": "usb", "ens1": "virtio", "docker0": ""}
    for number, (name, bus) in enumerate(buses.items()):
        device = tmp_path / "sys/class/net" / name
        plant(device, {"address": f"be:3a:f2:b6:05:0{number}\n"})
        if bus:
            (device / "device").mkdir()
            (device / "device/subsystem").symlink_to(f"../../../../bus/{bus}")
    addresses = read_host(tmp_path, {}).mac_addresses
    assert addresses == ("be:3a:f2:b6:05:00", "be:3a:f2:b6:05:02")


@LINUX
def test_this_machine_is_read() -> None:
    host = read_host()
    assert host.system == "Linux"
    assert host.memory_total is not None
    assert host.memory_available is not None
    assert 0 < host.memory_available <= host.memory_total
    assert host.cpus == len(os.sched_getaffinity(0))


def test_the_kernel_driver_of_each_nvidia_gpu(tmp_path: Path) -> None:
    root = tmp_path / "sys/bus/pci/devices"
    for number, driver in ((1, "nvidia"), (2, ""), (3, "vfio-pci")):
        device = root / f"0000:0{number}:00.0"
        for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x2330")):
            plant(device, {name: f"{text}\n"})
        if driver:
            (device / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    host = read_host(tmp_path, {})
    assert list(host.gpu_drivers.values()) == ["nvidia", "", "vfio-pci"]
    assert set(host.gpu_ids.values()) == {0x2330}


def test_pci_counts_gpus_and_nothing_else(tmp_path: Path) -> None:
    devices = {
        "0000:01:00.0": ("0x10de", "0x030200"),  # H100: 3D controller
        "0000:02:00.0": ("0x10de", "0x030000"),  # GeForce: VGA
        "0000:02:00.1": ("0x10de", "0x040300"),  # its audio function
        "0000:03:00.0": ("0x10de", "0x068000"),  # NVSwitch: bridge
        "0000:04:00.0": ("0x1002", "0x120000"),  # Instinct: processing accelerator
        "0000:05:00.0": ("0x1002", "0x038000"),  # display controller
        "0000:06:00.0": ("0x8086", "0x030000"),
        "0000:07:00.0": ("garbage", "0x030000"),
    }
    for slot, (vendor, kind) in devices.items():
        folder = f"sys/bus/pci/devices/{slot}"
        plant(tmp_path, {f"{folder}/vendor": f"{vendor}\n", f"{folder}/class": f"{kind}\n"})
    host = read_host(tmp_path, {})
    assert host.pci_listed
    assert (host.nvidia_devices, host.amd_devices) == (2, 2)
    assert host.has_nvidia


def test_device_nodes_are_listed(tmp_path: Path) -> None:
    plant(tmp_path, {f"dev/{name}": "" for name in ("nvidia0", "nvidiactl", "kfd", "null", "sda")})
    host = read_host(tmp_path, {})
    assert host.device_nodes == ("/dev/kfd", "/dev/nvidia0", "/dev/nvidiactl")
    assert host.has_nvidia


def test_wsl_is_seen_by_its_node(tmp_path: Path) -> None:
    host = read_host(plant(tmp_path, {"dev/dxg": ""}), {})
    assert host.device_nodes == ("/dev/dxg",)
    assert host.has_nvidia


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15",
            "535.104.05",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build",
            "580.95.05",
        ),
        ("NVRM version: something else", None),
    ],
)
def test_kernel_driver(tmp_path: Path, line: str, version: str | None) -> None:
    text = f"{line}\nGCC version:  gcc version 11.4.0\n"
    assert (
        read_host(plant(tmp_path, {"proc/driver/nvidia/version": text}), {}).kernel_driver
        == version
    )


def test_meminfo(tmp_path: Path) -> None:
    text = "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:    8000000 kB\n"
    host = read_host(plant(tmp_path, {"proc/meminfo": text}), {})
    assert host.memory_total == 16_384_000_000
    assert host.memory_available == 8_192_000_000


def test_shm_is_the_size_of_its_file_system(tmp_path: Path) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    told = os.statvfs(tmp_path)
    assert read_host(tmp_path, {}).shm_total == told.f_blocks * told.f_frsize


def test_only_names_on_the_list_are_recorded(tmp_path: Path) -> None:
    environ = {
        "HF_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "WANDB_API_KEY": "secret",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_TF32_OVERRIDE": "0",
    }
    assert read_host(tmp_path, environ).env == {
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_TF32_OVERRIDE": "0",
    }


def test_no_name_on_the_list_looks_like_a_secret() -> None:
    assert not [n for n in RECORDED if any(word in n for word in ("TOKEN", "SECRET", "PASSWORD"))]
    assert not [n for n in RECORDED if n.endswith("_KEY")]


@pytest.mark.parametrize(
    ("files", "environ", "name"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"run/systemd/container": "lxc\n"}, {}, "lxc"),
        ({"proc/1/cgroup": "0::/kubepods/burstable/pod1\n"}, {}, "kubernetes"),
        ({"proc/1/cgroup": "3:cpu:/docker/abc\n"}, {}, "docker"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, None),
    ],
)
def test_container(
    tmp_path: Path, files: dict[str, str], environ: dict[str, str], name: str | None
) -> None:
    assert read_host(plant(tmp_path, files), environ).container == name


@pytest.mark.parametrize(
    ("files", "release", "name"),
    [
        ({}, "6.8.0-60-generic", None),
        ({}, "5.15.153.1-microsoft-standard-WSL2", "WSL2"),
        ({}, "4.4.0-19041-Microsoft", "WSL1"),
        ({"proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n"}, "4.4.0",
         "gVisor"),
        ({"proc/version": "Linux version 4.4.0-210-generic (buildd@lcy01)\n"}, "4.4.0-210", None),
        ({"proc/cmdline": "reboot=k panic=1 pci=off virtio_mmio.device=4K@0xd0000000:5\n"}, "5.10",
         "a microVM such as Firecracker"),
        ({"proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz quiet intel_iommu=on\n"}, "6.8.0", None),
    ],
)  # fmt: skip
def test_a_kernel_that_is_not_the_machines_own_is_named(
    tmp_path: Path, files: dict[str, str], release: str, name: str | None
) -> None:
    assert read_kernel(plant(tmp_path, files), release)["sandbox"] == name


def test_iommu_groups_and_steal_time_are_read_where_they_are_reported(tmp_path: Path) -> None:
    nothing = {"sandbox": None, "iommu_groups": None, "steal": None}
    assert nothing.items() <= read_kernel(tmp_path, "6.8.0").items()
    (tmp_path / "sys/kernel/iommu_groups").mkdir(parents=True)
    plant(tmp_path, {"proc/stat": "cpu  700 0 100 100 0 0 0 100 0 0\ncpu0 7 0 1 1 0 0 0 1 0 0\n"})
    assert {"iommu_groups": 0, "steal": 0.1}.items() <= read_kernel(tmp_path, "6.8.0").items()
    for number in range(3):
        (tmp_path / f"sys/kernel/iommu_groups/{number}").mkdir()
    assert read_kernel(tmp_path, "6.8.0")["iommu_groups"] == 3


def v2(path: str, files: dict[str, str]) -> dict[str, str]:
    files = {"cgroup.controllers": "cpu memory\n"} | files
    planted = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    return {"proc/self/cgroup": f"0::{path}\n"} | planted


def test_cgroup_v2_of_a_container(tmp_path: Path) -> None:
    files = {
        "memory.max": "1000000000\n",
        "memory.current": "600000000\n",
        "memory.stat": "anon 100\ninactive_file 500000000\nactive_file 7\n",
        "cpu.max": "250000 100000\n",
    }
    host = read_host(plant(tmp_path, v2("/", files)), {})
    assert host.cgroup == "v2"
    assert host.cgroup_memory_limit == 1_000_000_000
    assert host.cgroup_memory_used == 100_000_000, "the cache that gives way is not used"
    assert host.cgroup_cpus == 2.5


def test_cgroup_v2_without_limits(tmp_path: Path) -> None:
    files = {"memory.max": "max\n", "memory.current": "5\n", "cpu.max": "max 100000\n"}
    host = read_host(plant(tmp_path, v2("/", files)), {})
    assert host.cgroup == "v2"
    assert host.cgroup_memory_limit is None
    assert host.cgroup_memory_used is None
    assert host.cgroup_cpus is None


def test_cgroup_v2_the_group_above_is_tighter(tmp_path: Path) -> None:
    files = {
        "job/memory.max": "2000\n",
        "job/memory.current": "1500\n",
        "job/cpu.max": "100000 100000\n",
        "job/step/memory.max": "4000\n",
        "job/step/memory.current": "100\n",
        "job/step/cpu.max": "400000 100000\n",
    }
    host = read_host(plant(tmp_path, v2("/job/step", files)), {})
    assert host.cgroup_memory_limit == 2000
    assert host.cgroup_memory_used == 1500
    assert host.cgroup_cpus == 1.0


def test_cgroup_v2_the_group_above_is_fuller(tmp_path: Path) -> None:
    files = {
        "pod/memory.max": "9000\n",
        "pod/memory.current": "8900\n",
        "pod/me/memory.max": "4000\n",
        "pod/me/memory.current": "100\n",
    }
    host = read_host(plant(tmp_path, v2("/pod/me", files)), {})
    assert (host.cgroup_memory_limit, host.cgroup_memory_used) == (9000, 8900)


def test_cgroup_v2_path_outside_the_namespace(tmp_path: Path) -> None:
    files = {"memory.max": "3000\n", "memory.current": "1\n"}
    host = read_host(plant(tmp_path, v2("/../../system.slice/job", files)), {})
    assert host.cgroup_memory_limit == 3000


def test_cgroup_v2_use_not_read_is_not_zero(tmp_path: Path) -> None:
    host = read_host(plant(tmp_path, v2("/", {"memory.max": "3000\n"})), {})
    assert host.cgroup_memory_limit == 3000
    assert host.cgroup_memory_used is None


def v1(path: str, files: dict[str, str]) -> dict[str, str]:
    groups = f"9:name=systemd:{path}\n4:memory:{path}\n3:cpu,cpuacct:{path}\n0::/\n"
    return {"proc/self/cgroup": groups} | {f"sys/fs/cgroup/{n}": text for n, text in files.items()}


def test_cgroup_v1_where_only_the_containers_own_group_is_mounted(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": "1000\n",
        "memory/memory.usage_in_bytes": "700\n",
        "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 300\n",
        "cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
        "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    host = read_host(plant(tmp_path, v1("/docker/abc", files)), {})
    assert host.cgroup == "v1"
    assert (host.cgroup_memory_limit, host.cgroup_memory_used) == (1000, 400)
    assert host.cgroup_cpus == 1.5


def test_cgroup_v1_without_limits(tmp_path: Path) -> None:
    files = {
        "memory/slurm/memory.limit_in_bytes": V1_UNLIMITED,
        "memory/memory.limit_in_bytes": V1_UNLIMITED,
        "cpu,cpuacct/slurm/cpu.cfs_quota_us": "-1\n",
        "cpu,cpuacct/slurm/cpu.cfs_period_us": "100000\n",
    }
    host = read_host(plant(tmp_path, v1("/slurm", files)), {})
    assert host.cgroup == "v1"
    assert host.cgroup_memory_limit is None
    assert host.cgroup_cpus is None


def test_cgroup_v1_nested(tmp_path: Path) -> None:
    files = {
        "memory/slurm/job/memory.limit_in_bytes": V1_UNLIMITED,
        "memory/slurm/memory.limit_in_bytes": "5000\n",
        "memory/slurm/memory.usage_in_bytes": "10\n",
        "cpu/slurm/job/cpu.cfs_quota_us": "300000\n",
        "cpu/slurm/job/cpu.cfs_period_us": "100000\n",
    }
    host = read_host(plant(tmp_path, v1("/slurm/job", files)), {})
    assert host.cgroup_memory_limit == 5000
    assert host.cgroup_cpus == 3.0


def test_cgroup_hybrid_takes_memory_from_version_1(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": "5000\n",
        "unified/cgroup.controllers": "\n",
    }
    host = read_host(plant(tmp_path, v1("/", files)), {})
    assert host.cgroup == "v1"
    assert host.cgroup_memory_limit == 5000


def test_garbage_in_the_files_is_none(tmp_path: Path) -> None:
    files = {"memory.max": "lots\n", "memory.current": "", "cpu.max": "x y z\n"}
    host = read_host(plant(tmp_path, v2("/", files) | {"proc/meminfo": "\x00nonsense"}), {})
    assert host.cgroup_memory_limit is None
    assert host.cgroup_cpus is None
    assert host.memory_total is None


def test_a_vendor_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = vendors.Vendor("Own", None, "own", 0x1E52, ("12",), ("own[0-9]",), ("OWN_DEVICES",))
    monkeypatch.setattr(vendors, "VENDORS", (*vendors.VENDORS, own))
    host = read_host(plant(tmp_path, {"dev/own0": ""}), {})
    assert vendors.vendor_of(0x1E52, 0x120000) is own
    assert host.device_nodes == ("/dev/own0",)
    assert "OWN_DEVICES" in vendors.variables()


def test_the_display_of_a_laptop_is_no_gpu_to_train_on() -> None:
    laptop, server = 0x030000, 0x038000
    assert vendors.vendor_of(0x8086, laptop) is None
    assert vendors.vendor_of(0x8086, server) is vendors.INTEL
    assert vendors.vendor_of(0x10DE, None) is None


def test_what_a_job_trains_on_comes_from_the_vendors() -> None:
    assert vendors.TARGETS == ("nvidia", "rocm", "mps", "cpu")
    assert set(get_args(vendors.TargetKind)) == set(vendors.TARGETS)
    assert vendors.DEVICES["rocm"] == "cuda"
