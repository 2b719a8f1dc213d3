"""Which devices a report shows: MIG instances, UUIDs, WSL, a Jetson, lanes, inodes.

The texts are our own, in the structure that the tools print.
"""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text

MIG = "MIG-3f1c5a58-1c40-5be7-9a3b-88b7ae3b9d12"
OLD = "MIG-GPU-5c1e97a4-7a80-9a2b-1f0f-2f3d8b1f3c11/7/0"
GPU = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5c1e97a4-7a80-9a2b-1f0f-2f3d8b1f3c11)\n"
TABLE = """
| NVIDIA-SMI 560.35.05              Driver Version: 560.35.05      CUDA Version: 12.6     |
|=========================================+========================+======================|
|   0  NVIDIA H100 PCIe                On |   00000000:17:00.0 Off |                   On |
| N/A   34C    P0             51W /  350W |       1MiB /  81559MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
"""
DEVICES = """
| MIG devices:                                                                            |
|  0    9   0   0  |              12MiB /  9856MiB    | 14      0 |  1   0    0    0    0 |
"""
NO_GPU = (
    "\n>>> import torch; torch.__version__, torch.cuda.is_available()\n('2.5.1+cu124', False)\n"
)
FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
FULL = "OSError: [Errno 28] No space left on device: '/data/a.jpg'\n"
INODES = "Filesystem Inodes IUsed IFree IUse% Mounted on\n"
SMALL = "$ nvidia-smi -L\n" + GPU


def problems(text: str) -> dict[str, str]:
    found = findings_of(facts_of_text(text, "report"))
    return {each.check.code: " ".join((each.fix, *each.commands)) for each in found
            if each.is_problem}  # fmt: skip


SOUND = {
    "its instance is listed": f"$ nvidia-smi -L\n{GPU}  MIG 1g.10gb     Device  0: (UUID: {MIG})\n"
    f"$ echo $CUDA_VISIBLE_DEVICES\n{MIG}\ntorch 2.5.1+cu124\n",
    "an instance of an old driver": f"{GPU}  MIG 1g.5gb+me Device 0: (UUID: {OLD})\n"
    f"CUDA_VISIBLE_DEVICES={OLD}\ntorch 2.5.1+cu121\n",
    "a table states no UUIDs": f"{TABLE}{DEVICES}CUDA_VISIBLE_DEVICES={MIG}\n",
    "nor of whole GPUs": TABLE.replace("Enabled", "Disabled")
    + "CUDA_VISIBLE_DEVICES=GPU-5c1e97a4-7a80-9a2b-1f0f-2f3d8b1f3c11\n",
    "torch uses one": f"{SMALL}CUDA_VISIBLE_DEVICES={MIG}\n"
    "1 _CudaDeviceProperties(name='NVIDIA A100-SXM4-80GB MIG 1g.10gb', major=8, minor=0)\n",
    "a divided GPU": TABLE + DEVICES,
    "inodes without an error": f"{SMALL}{INODES}/dev/md0 2348 2348 0 100% /data\n",
    "WSL as it should be": "$ ls /dev/dxg\n/dev/dxg\n$ nvidia-smi\n"
    + TABLE.replace("Enabled", "Disabled"),
}


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND)
def test_a_report_of_a_sound_machine_accuses_nothing(text: str) -> None:
    assert {"GPU001", "DRV001", "DRV003"}.isdisjoint(problems(text))


WORDS = {
    "an instance that is gone": (
        f"$ nvidia-smi -L\n{GPU}CUDA_VISIBLE_DEVICES={MIG}\ntorch 2.5.1+cu124\n",
        "GPU001",
        "Unset CUDA_VISIBLE_DEVICES",
    ),
    "MIG mode in the table": (TABLE + NO_GPU, "GPU001", "mig -cgi"),
    "MIG mode, and the list without instances": (
        f"{TABLE}$ nvidia-smi -L\nGPU 0: NVIDIA H100 PCIe (UUID: GPU-8a1e7b6e-57c4-5b0a)\n{NO_GPU}",
        "GPU001",
        "mig -cgi",
    ),
    "MIG mode of a query": (
        "$ nvidia-smi --query-gpu=name,mig.mode.current --format=csv\nname, mig.mode.current\n"
        f"NVIDIA H100 PCIe, Enabled\n{NO_GPU}",
        "GPU001",
        "mig -cgi",
    ),
    "nvidia-smi says so": (TABLE + "|  No MIG devices found   |\n", "DRV003", "mig -cgi"),
    "mig -lgi says so": (SMALL + "No GPU instances found: Not Found\n", "DRV003", "mig -cgi"),
    "WSL by its kernel": (FAILED + "5.15.167.4-microsoft-standard-WSL2\n", "DRV001", "apt purge"),
    "WSL by its device": (FAILED + "$ ls /dev/dxg\n/dev/dxg\n", "DRV001", "apt purge"),
    "WSL by its libraries": (
        FAILED + "libcuda.so.1 (libc6,x86-64) => /usr/lib/wsl/lib/libcuda.so.1\n",
        "DRV001",
        "apt purge",
    ),
    "WSL by its command": (FAILED + "I ran wsl --shutdown twice.\n", "DRV001", "apt purge"),
    "WSL with another version": (
        "Failed to initialize NVML: Driver/library version mismatch\n/usr/lib/wsl/lib/nvidia-smi\n",
        "DRV001",
        "apt purge",
    ),
    "a Linux host": (FAILED + "6.8.0-45-generic\n", "DRV001", "modprobe nvidia"),
    "a Jetson by its capability": (
        ">>> torch.cuda.get_device_capability(), torch.cuda.get_arch_list()\n((8, 7), ['sm_90'])\n"
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
        "TOR003",
        "JetPack",
    ),
    "a Jetson by its release": (
        "# R36 (release), REVISION: 4.3\n$ cat /etc/nv_tegra_release\ntorch 2.7.0+cu126\n"
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
        "TOR003",
        "JetPack",
    ),
    "a CPU build in Windows": (
        "PyTorch version: 2.8.0+cpu\nCUDA used to build PyTorch: None\n"
        "OS: Microsoft Windows 11 Pro (10.0.26100 64-bit)\nIs CUDA available: False\n"
        "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 4070 SUPER\n"
        "Nvidia driver version: 566.36\n",
        "TOR002",
        "--index-url https://download.pytorch.org/whl/cu12",
    ),
    "no free inodes": (
        f"{SMALL}{FULL}{INODES}/dev/md0 234881024 234881024 0 100% /data\n",
        "DRV003",
        "pack them",
    ),
    "no free inodes, with types and units": (
        f"{SMALL}{FULL}Filesystem Type Inodes IUsed IFree IUse% Mounted on\n"
        "tank/home zfs 224M 224M 0 100% /home\n",
        "DRV003",
        "pack them",
    ),
    "a snap is always full": (
        f"{SMALL}{FULL}{INODES}/dev/loop3 1200 1200 0 100% /snap/core/1\n",
        "DRV003",
        "save_total_limit",
    ),
    "fewer lanes": (
        "index, name, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
        "pcie.link.width.max\n0, NVIDIA GeForce RTX 3090, 4, 4, 1, 16\n",
        "GPU005",
        "riser",
    ),
}


@pytest.mark.parametrize(("text", "code", "words"), WORDS.values(), ids=WORDS)
def test_a_cause_is_named_with_its_remedy(text: str, code: str, words: str) -> None:
    assert words in problems(text)[code]
