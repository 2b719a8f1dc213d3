"""Each fact and each judged relation in the forms in which people paste them.

`TOLD`: text -> the check that complains, "" for none; `SOUND`: texts that return no machine.
"""

from __future__ import annotations

import contextlib

import pytest

from doctor._util.errors import UserError
from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding, Owner, Status
from doctor.report.actions import actions_of


def problems(text: str) -> list[Finding]:
    return [each for each in findings_of(facts_of_text(text, "report")) if each.is_problem]


TOLD = (
    (
        '>>> torch.__version__\n'
        "'2.6.0+cu124'\n"
        '>>> torch.cuda.get_device_properties(0)\n'
        "_CudaDeviceProperties(name='NVIDIA GeForce RTX 5090', major=12, "
        "minor=0, total_memory=32606MB, multi_processor_count=170, uuid=..., "
        "L2_cache_size=96MB)\n",
        'TOR003:fail',
    ),
    (
        'torch 2.6.0+cu124\n'
        'GPU: NVIDIA GeForce RTX 5090 (compute capability 12.0)\n'
        'driver 572.83\n',
        'TOR003:fail',
    ),
    (
        '$ pip show torch\n'
        'Name: torch\n'
        'Version: 2.6.0+cu124\n'
        'Summary: Tensors\n'
        '$ nvidia-smi -L\n'
        'GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-9b9e1f62-0000-0000-0000-000000000000)\n',
        'TOR003:fail',
    ),
    (
        'torch==2.6.0+cu124\n'
        'torchvision==0.21.0+cu124\n'
        '\n'
        '01:00.0 VGA compatible controller: NVIDIA Corporation GB202 [GeForce '
        'RTX 5090] (rev a1)\n',
        'TOR003:fail',
    ),
    (
        'Total VRAM 32607 MB, total RAM 65461 MB\n'
        'pytorch version: 2.6.0+cu124\n'
        'Set vram state to: NORMAL_VRAM\n'
        'Device: cuda:0 NVIDIA GeForce RTX 5090 : cudaMallocAsync\n',
        'TOR003:fail',
    ),
    (
        'Ultralytics 8.3.40 Python-3.10.12 torch-2.6.0+cu124 CUDA:0 (NVIDIA '
        'GeForce RTX 5090, 32607MiB)\n',
        'TOR003:fail',
    ),
    (
        "$ python -c 'import torch; print(torch.__version__, "
        "torch.version.cuda, torch.cuda.get_device_capability())'\n"
        '2.6.0+cu124 12.4 (12, 0)\n',
        'TOR003:fail',
    ),
    (
        '$ nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader\n'
        'NVIDIA GeForce RTX 5090, 572.83, 32607 MiB\n'
        '$ pip freeze | grep torch\n'
        'torch==2.6.0+cu124\n',
        'TOR003:fail',
    ),
    (
        '>>> torch.cuda.get_device_capability()\n'
        '(8, 7)\n'
        '>>> torch.cuda.get_arch_list()\n'
        "['sm_50', 'sm_60', 'sm_70', 'sm_75', 'sm_80', 'sm_86', 'sm_89', "
        "'sm_90', 'compute_90']\n",
        '',
    ),
    (
        'NVIDIA-SMI version  : 470.223.02\n'
        'NVML version        : 470.223\n'
        'DRIVER version      : 470.223.02\n'
        'CUDA Version        : 11.4\n'
        '\n'
        'torch==2.5.1+cu124\n',
        'DRV002:fail',
    ),
    (
        '$ cat /proc/driver/nvidia/version\n'
        'NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.223.02  Sat Oct  '
        '7 15:39:11 UTC 2023\n'
        'GCC version:  gcc version 9.4.0\n'
        "$ python -c 'import torch; print(torch.__version__)'\n"
        '2.5.1+cu124\n',
        'DRV002:fail',
    ),
    (
        'filename: /lib/modules/5.4.0/updates/dkms/nvidia.ko\n'
        'version:        470.223.02\n'
        'supported:      external\n'
        'license:        NVIDIA\n'
        '\n'
        'pip list\n'
        'Package Version\n'
        '------- -------\n'
        'torch   2.5.1+cu124\n',
        'DRV002:fail',
    ),
    (
        'ii  nvidia-driver-470   470.223.02-0ubuntu0.20.04.1   amd64   NVIDIA '
        'driver metapackage\n'
        '\n'
        '* PyTorch 2.5.1+cu124\n'
        '* GPU: Tesla V100-SXM2-16GB\n',
        'DRV002:fail',
    ),
    (
        'GPU driver: 470.223.02\n'
        'PyTorch: 2.5.1+cu124\n'
        'GPU: Tesla V100\n',
        'DRV002:fail',
    ),
    (
        'nvidia.com/cuda.driver.major=470\n'
        'nvidia.com/cuda.driver.minor=223\n'
        'nvidia.com/cuda.driver.rev=02\n'
        'nvidia.com/gpu.product=Tesla-V100-SXM2-16GB\n'
        'nvidia.com/gpu.count=8\n'
        'torch 2.5.1+cu124\n',
        'DRV002:fail',
    ),
    (
        'dgx01  Mon Nov  3 10:11:12 2025  470.223.02\n'
        "[0] Tesla V100-SXM2-16GB | 35'C,   0 % |     3 / 16160 MB |\n"
        "[1] Tesla V100-SXM2-16GB | 35'C,   0 % |     3 / 16160 MB |\n"
        '\n'
        'torch==2.5.1+cu124\n',
        'DRV002:fail',
    ),
    (
        '[    5.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  470.223.02  '
        'Sat Oct  7 15:39:11 UTC 2023\n'
        '\n'
        'torch==2.5.1+cu124\n',
        'DRV002:fail',
    ),
    (
        'UserWarning: CUDA initialization: The NVIDIA driver on your system is '
        'too old (found version 11040). Please update your GPU driver\n',
        'DRV002:fail',
    ),
    (
        '$ nvidia-smi --query-gpu=index,name,ecc.errors.uncorrected.volatile.to'
        'tal --format=csv\n'
        'index, name, ecc.errors.uncorrected.volatile.total\n'
        '0, NVIDIA A100-SXM4-80GB, 0\n'
        '1, NVIDIA A100-SXM4-80GB, 3\n',
        'GPU003:fail',
    ),
    (
        '| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |\n'
        '|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |    '
        '                3 |\n'
        '| N/A   26C    P0    65W / 400W |      4MiB / 81920MiB |      0%      Default |\n',
        'GPU003:fail',
    ),
    (
        'GPU 00000000:07:00.0\n'
        '    Product Name : NVIDIA A100-SXM4-80GB\n'
        '    ECC Errors\n'
        '        Volatile\n'
        '            SRAM Uncorrectable : 0\n'
        '            DRAM Uncorrectable : 3\n',
        'GPU003:fail',
    ),
    (
        '<gpu id="00000000:07:00.0">\n'
        '<product_name>NVIDIA A100-SXM4-80GB</product_name>\n'
        '<ecc_errors><volatile><dram_uncorrectable>3</dram_uncorrectable></vola'
        'tile></ecc_errors>\n'
        '</gpu>\n',
        'GPU003:fail',
    ),
    (
        'GPU 00000000:07:00.0\n'
        '    Remapped Rows\n'
        '        Correctable Error : 0\n'
        '        Uncorrectable Error : 2\n'
        '        Pending : Yes\n'
        '        Remapping Failure Occurred : No\n',
        'GPU003:warn',
    ),
    (
        '    Remapped Rows\n'
        '        Correctable Error                 : 0\n'
        '        Uncorrectable Error               : 2\n'
        '        Pending                           : No\n'
        '        Remapping Failure Occurred        : Yes\n',
        'GPU003:fail',
    ),
    (
        '[Mon] NVRM: Xid (PCI:0000:07:00): 48, pid=123, DBE (double bit error) occurred\n',
        'GPU003:fail',
    ),
    (
        "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', "
        "name=<unknown>, GPU has fallen off the bus.\n",
        'GPU001:fail',
    ),
    (
        'Nov 03 10:00:00 node1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has '
        'fallen off the bus.\n',
        'GPU001:fail',
    ),
    (
        '{"level":"error","msg":"XidCriticalError: Xid=79 on '
        'Device=GPU-5a889549, marking device as unhealthy"}\n'
        'I0326 health.go:159] XidCriticalError: Xid=79 on Device=GPU-5a88, the '
        'device will go unhealthy.\n',
        'GPU001:fail',
    ),
    (
        '|   0  NVIDIA A100-SXM4-40GB      On  | 00000000:07:00.0 Off |        '
        '           On |\n'
        '| N/A   30C    P0    45W / 400W |      0MiB / 40960MiB |     N/A      Default |\n'
        '|                               |                      |              Enabled |\n'
        '| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |\n'
        '| MIG devices: |\n'
        '|  No MIG devices found |\n',
        'DRV003:fail',
    ),
    (
        '$ df -h /dev/shm\n'
        'Filesystem      Size  Used Avail Use% Mounted on\n'
        'shm              64M     0   64M   0% /dev/shm\n',
        'MEM003:warn',
    ),
    (
        'df -h\n'
        'overlay 200G 150G 50G 75% /\n'
        'tmpfs 64M 0 64M 0% /dev\n'
        'shm 64M 64M 0 100% /dev/shm\n',
        'MEM003:warn',
    ),
    (
        "RuntimeError: DataLoader worker (pid 123) is killed by signal: Bus "
        "error. It is possible that dataloader's workers are out of shared "
        "memory.\n",
        'DRV003:fail',
    ),
    (
        '        GPU0    GPU1    GPU2    GPU3    CPU Affinity\n'
        'GPU0     X      NV12    SYS    NV12    0-55\n'
        'GPU1    NV12     X      SYS    NV12    0-55\n'
        'GPU2    SYS    SYS     X      SYS    0-55\n'
        'GPU3    NV12    NV12    SYS     X      0-55\n',
        'GPU007:warn',
    ),
    (
        '        GPU0    GPU1    GPU2    GPU3\n'
        'GPU0     X      NV4    PHB    PHB\n'
        'GPU1    NV4     X      PHB    PHB\n'
        'GPU2    PHB    PHB     X      NV4\n'
        'GPU3    PHB    PHB     NV4     X\n',
        '',
    ),
    (
        'clocks_event_reasons.hw_thermal_slowdown, '
        'clocks_event_reasons.sw_power_cap, temperature.gpu, name\n'
        'Active, Not Active, 93, NVIDIA RTX A4000\n',
        'GPU004:warn',
    ),
    (
        '    Clocks Throttle Reasons\n'
        '        Idle : Not Active\n'
        '        HW Slowdown : Active\n'
        '            HW Thermal Slowdown : Active\n'
        '            HW Power Brake Slowdown : Not Active\n',
        'GPU004:warn',
    ),
    (
        '<clocks_event_reasons><clocks_event_reason_hw_slowdown>Active</clocks_'
        'event_reason_hw_slowdown></clocks_event_reasons>\n',
        'GPU004:warn',
    ),
    (
        'clocks_throttle_reasons.active: 0x0000000000000048\n'
        '$ nvidia-smi --query-gpu=name,clocks_throttle_reasons.active --format=csv\n'
        'name, clocks_throttle_reasons.active\n'
        'NVIDIA A100-PCIE-40GB, 0x0000000000000048\n',
        'GPU004:warn',
    ),
    (
        'name, pcie.link.width.current, pcie.link.width.max\n'
        'NVIDIA GeForce RTX 3090, 1, 16\n',
        'GPU005:warn',
    ),
    (
        '01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce '
        'RTX 3090] (rev a1)\n'
        '        LnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1\n'
        '        LnkSta: Speed 2.5GT/s (downgraded), Width x1 (downgraded)\n',
        'GPU005:warn',
    ),
    (
        '            Link Width\n'
        '                Max : 16x\n'
        '                Current : 1x\n'
        '            PCIe Generation\n'
        '                Max : 4\n'
        '                Current : 4\n',
        'GPU005:warn',
    ),
)  # fmt: skip


@pytest.mark.parametrize(("text", "told"), TOLD)
def test_a_fact_is_read_in_every_form(text: str, told: str) -> None:
    found = {f"{each.check.code}:{each.status.value}" for each in problems(text)}
    assert told in found if told else not found


SOUND = (
    (
        'NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)\n'
        'NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n'
        'NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)\n'
    ),
    (
        'NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0xffff:1234)\n'
        'NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0\n'
    ),
    (
        'nvidia: probe of 0000:01:00.0 failed with error -1\n'
        'NVRM: The NVIDIA probe routine failed for 1 device(s).\n'
    ),
    (
        'kernel: iwlwifi 0000:00:14.3: AER: PCIe Bus Error: severity=Corrected\n'
        'kernel: pcieport 0000:00:1c.0: AER: Corrected error received: 0000:02:00.0\n'
        'DMAR: [DMA Read NO_PASID] Request device [00:02.0] fault addr 0x0\n'
        'NVIDIA-SMI 550.54 Driver Version: 550.54 CUDA Version: 12.4\n'
    ),
    (
        'Solved: the old card had Xid 79 last year, NVIDIA replaced it. Now '
        'nvidia-smi is fine.\n'
        'NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python, Ch 00000008\n'
    ),
    (
        'Earlier we got CUDA error: uncorrectable ECC error encountered, after '
        'the reset all is well\n'
        '$ nvidia-smi -L\n'
        'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n'
    ),
    (
        "Is this the same as #123 where 'CUDA error: uncorrectable ECC error "
        "encountered' was printed? For me it is only slow. torch 2.5.1+cu124\n"
    ),
    (
        'system not yet initialized was fixed by systemctl start nvidia-fabricmanager.\n'
        'Fabric State : Completed\n'
    ),
)  # fmt: skip


@pytest.mark.parametrize("text", SOUND)
def test_no_machine_is_returned_unless_a_device_was_seen_at_fault(text: str) -> None:
    with contextlib.suppress(UserError):
        failed = [each for each in problems(text) if each.status is Status.FAIL]
        assert not [each for each in failed if each.check.returns and each.owner is Owner.MACHINE]


@pytest.mark.parametrize(
    "text",
    [
        "It works on the box with torch 2.6.0+cu124 and an RTX 4090; here torch 2.9.1+cu130 fails.",
        "torch 2.6.0+cu124 on an RTX 4090 is fine, the RTX 5090 waits for its power supply.\n",
        "We need torch>=2.7 and at least driver 570.26 for the RTX 5090.",
    ],
)
def test_of_a_text_about_several_machines_nothing_is_taken(text: str) -> None:
    with contextlib.suppress(UserError):
        assert not problems(text)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("torch==2.5.1\ntorchvision==0.19.1\n", '"torchvision==0.20.*"'),
        ("[pip3] torch==2.5.1+cu124\n[pip3] torchvision==0.20.1+cpu\n", "--index-url"),
        ("Package Version\n------- -------\ntorch 2.5.1+cu124\ntorchaudio 2.4.0\n", "2.5.*"),
    ],
)
def test_torchvision_of_another_torch_is_read_from_lists_of_packages(
    text: str, command: str
) -> None:
    found = {each.check.code: each for each in problems(text)}
    assert command in " ".join(found["TOR004"].commands)
    assert actions_of(found["TOR004"])
