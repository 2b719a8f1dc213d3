"""What several lines of a report say together: packages, containers, schedulers, links, readings.

The texts are our own, in the structure that the tools print. Each fault stands beside what
resembles it and is none.
"""

from __future__ import annotations

import pytest

from doctor._util.errors import UserError
from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding
from doctor.pasted import read

HEAD = "| NVIDIA-SMI 550.127.08   Driver Version: 550.127.08   CUDA Version: 12.4 |\n"


def card(index: int, readings: str, name: str = "NVIDIA GeForce RTX 3090") -> str:
    return (
        f"|   {index}  {name}   Off |   00000000:0{index}:00.0 Off |     N/A |\n"
        f"| {readings} |   8312MiB / 24576MiB |     {{use}}%      Default |\n"
        "|                                  |                        |     N/A |\n"
    )


def table(*readings: str, use: int = 99, name: str = "NVIDIA GeForce RTX 3090") -> str:
    rows = (card(number, each, name).format(use=use) for number, each in enumerate(readings))
    return HEAD + "".join(rows)


COOL = " 71%   72C    P2            341W /  350W"
LISTED = "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-0a47c5c9-2f1f-57c3-b0b5-2f4ac94ce1dd)\n"
OTHER = "GPU 1: NVIDIA L40S (UUID: GPU-0a47c5c9-2f1f-57c3-b0b5-2f4ac94ce1de)\n"
ERROR = "ImportError: undefined symbol: ncclCommWindowRegister\n"
NOT_LOADED = "ImportError: a.so: undefined symbol: _ZN3c104cuda9SetDeviceEa\n"
PINNED = (
    'torch 2.8.0 has requirement nvidia-nccl-cu12==2.27.3; platform_system == "Linux", but you '
    "have nvidia-nccl-cu12 2.21.5.\n"
)
PROTOBUF = (
    "google-api-core 2.11.0 requires protobuf<5.0.0dev,>=3.19.5, but you have protobuf 6.1.\n"
)
USED = "('2.6.0+cu124', True)\n"
WHEEL = "flash_attn @ https://x.org/flash_attn-2.7.4+cu12torch{}cxx11abiFALSE-cp311.whl\n"
REPORT = "torch version .................... 2.3.1+cu121\ntorch cuda version ............... 12.1\n"
NVCC = "Cuda compilation tools, release {}, V{}.119\n"
COMPOSE = "services:\n  trainer:\n    image: trainer:1\n\n    command: python train.py\n"
NO_TORCH_GPU = "2.4.1+cu121 False\n"
POD = (
    "kubectl get pod -o yaml\n    resources:\n      limits:\n        cpu: 16\n{}    volumeMounts:\n"
)
OFFERS = "Capacity:\n  cpu:  96\n  nvidia.com/gpu:  8\nAllocatable:\n  nvidia.com/gpu:  {}\n"
NODE = "NodeName=g07 Arch=x86_64\n   State={} ThreadsPerCore=2\n   Reason={} [slurm@2025-06-03]\n"
VFIO = (
    "18:00.0 3D controller [0302]: NVIDIA Corporation TU104GL [Tesla T4]\n"
    "\tKernel driver in use: {}\n"
)
NCCL = "{}:221:221 [0] NCCL INFO NCCL version {}+cuda12.4\n"
LINK = "4: ens1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {} qdisc mq state UP\n"
PING = "$ ping -c 2 -M do -s 8972 10.0.0.2\n2 packets transmitted, 0 received, 100% packet loss\n"
GIDS = (
    "mlx5_0  1       1       {}:0000:0000:0000:0ac0:ebff:feda:1cfb                 v2      ens1\n"
)
PORT = (
    "CA 'mlx5_{}'\n  Port 1:\n    State: {}\n    Physical state: LinkUp\n"
    "    Link layer: InfiniBand\n"
)
RDMA = "link mlx5_{}/1 subnet_prefix fe80 lid 29 lmc 0 state {} physical_state {}\n"
COPIES = (
    "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
    "           0         1         2         3\n 0     55.31     55.29      {}     55.30\n"
)
POLICY = (
    "  hardware limits: 800 MHz - 3.60 GHz\n"
    "  current policy: frequency should be within 800 MHz and {}.\n"
    '                  The governor "powersave" may decide\n'
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
    "capacity of 23.69 GiB of which 11.06 MiB is free. Including non-PyTorch memory, this process "
    "has {} GiB memory in use.\n"
)
QUOTED = '"GPU 0 has a total capacity of 47.53 GiB. Process 88 has {} GiB memory in use" it says\n'
PS = "    PID USER     ELAPSED STAT CMD\n     88 dana  19-04:22:51 Sl   python -m ipykernel\n"
GPUSTAT = "[0] NVIDIA GeForce RTX 3090 | 34'C,   0 % | 24210 / 24576 MB | petra(23790M)\n"
SLICES = "CUDA_VISIBLE_DEVICES=MIG-0b0f5a2d-4a3c-5c6e,MIG-5f7e1b40-7dbb-5c34 torchrun {}\n"

NAMED = [
    (ERROR + PINNED, "requirement-of-torch-broken", "nvidia-nccl-cu12 ==2.27.3"),
    (PINNED + HEAD, "requirement-of-torch-differs", "2.21.5 is installed"),
    ("The package `torchvision` requires `torch==2.6.0`, but `2.7.1` is installed\n" + HEAD,
     "requirement-of-torch-differs", "torchvision needs torch ==2.6.0"),
    (WHEEL.format("2.6") + "torch==2.8.0\n" + NOT_LOADED + HEAD,
     "wheel-for-other-torch", "torch 2.6, and"),
    ("natten==0.17.5+torch260cu126\ntorch==2.9.1\n" + NOT_LOADED + HEAD,
     "wheel-for-other-torch", "torch 2.6"),
    ("torch_scatter  2.1.2+pt24cu121\ntorch   2.6.0\nSegmentation fault (core dumped)\n" + HEAD,
     "wheel-for-other-torch", "2.4, and"),
    (REPORT + NVCC.format("11.5", "11.5") + "object has no attribute 'ds_opt_adam'\n",
     "toolkit-of-other-cuda", "CUDA 11.5"),
    ("FlashAttention-3 is only supported on CUDA 12.3 and above\ntorch.__version__  = 2.5.0+cu124\n"
     + NVCC.format("12.1", "12.1") + HEAD, "toolkit-of-other-cuda", "CUDA 12.1"),
    (LISTED + "$ apptainer exec t.sif python -c 'import torch'\n" + NO_TORCH_GPU,
     "container-started-without-gpus", "--nv"),
    (LISTED + "$ docker run -it \\\n  --shm-size=8g img python a.py\n" + NO_TORCH_GPU,
     "container-started-without-gpus", "--gpus all"),
    (LISTED + '"DeviceRequests": null,\nexec: "nvidia-smi": executable file not found in $PATH\n',
     "container-started-without-gpus", "DeviceRequests"),
    (LISTED + "NVIDIA_VISIBLE_DEVICES=void\nRuntimeError: No CUDA GPUs are available\n",
     "container-started-without-gpus", "void"),
    (LISTED + COMPOSE + "Is CUDA available: False\n", "container-started-without-gpus", "compose"),
    ("RuntimeError: \n      The detected CUDA version (12.8) mismatches the version that was used\n"
     "torch 2.4.1+cu118\n" + LISTED, "cuda-toolkit-mismatch", "12.8"),
    (POD.format("") + "Failed to initialize NVML: Unknown Error\n",
     "container-started-without-gpus", "name no nvidia.com/gpu"),
    (OFFERS.format(0) + "server.go:275] 'nvidia.com/gpu' device marked unhealthy: GPU-1c\n"
     "EventData:74 GpuInstanceId\n", "gpus-not-allocatable", "(Xid 74)"),
    (NODE.format("IDLE+DRAIN", "gres/gpu count reported lower than configured (7 < 8)"),
     "slurm-lacks-gpus", "7 < 8"),
    (NODE.format("DOWN*", "Not responding"), "slurm-node-held-back", "node g07"),
    (VFIO.format("vfio-pci") + "No devices were found\n", "gpu-of-virtual-machine", "1 of 1 GPU"),
    (LISTED + "Error 805: MPS client failed to connect to the MPS control daemon\n",
     "mps-not-reachable", "805"),
    (LISTED + "Confidential Compute GPUs Ready state: not-ready\n", "confidential-gpu-not-ready",
     "not-ready"),
    (LISTED + SLICES.format("--nproc_per_node=2"), "mig-slices-not-joined", "2 MIG"),
    (NCCL.format("a", "2.21.5") + NCCL.format("b", "2.18.1"), "nccl-versions-differ", "2.18.1"),
    (LINK.format(9000) + LINK.format(1500) + PING, "network-packets-too-large", "MTU 1500"),
    ("NCCL_IB_GID_INDEX=1\n" + GIDS.format("fe80"), "roce-address-wrong", "INDEX=1"),
    (PORT.format(0, "Initializing"), "infiniband-without-manager", "mlx5_0"),
    (RDMA.format(0, "ACTIVE", "LINK_UP") + RDMA.format(3, "DOWN", "POLLING")
     + "NCCL_IB_HCA=mlx5_0,mlx5_3\n", "infiniband-port-down", "mlx5_3"),
    ("SymbolErrorCounter:..............65535\n", "infiniband-errors", "65,535"),
    ("# Out of bounds values : 50 FAILED\n", "collective-results-wrong", "50 FAILED"),
    ("\tGPU 2: OK\n\tGPU 3: FAULTY\n", "gpu-computes-wrongly", "GPU 3"),
    (COPIES.format("6.41"), "gpu-copies-slow", "GPU 2"),
    ("It hangs. NCCL_P2P_DISABLE=1 makes it work.\n", "peer-access-fails", "makes it work"),
    ("NCCL INFO NET/OFI Selected Provider is tcp (found 1 nics)\n", "nccl-network-not-used", "tcp"),
    (table("  0%   91C    P2            132W /  350W", COOL), "gpu-fan-stopped", "GPU 0"),
    (table(" 99%   91C    P2            132W /  350W", COOL), "gpu-hot", "91 C"),
    (table(" 30%   41C    P8             33W /  350W"), "gpu-stays-in-idle-state", "P8"),
    (table(COOL, " 60%   52C    P2            149W /  150W"), "power-limit-low", "150 W"),
    (LISTED + POLICY.format("800 MHz"), "cpu-clock-held-low", "governor powersave"),
    (LISTED + "%Cpu(s): 41.2 us,  3.1 sy, 12.0 id,  0.4 si, 43.2 st\n", "cpu-time-stolen", "43.2"),
    (LISTED + OTHER + "it uses the wrong card\n", "gpu-order-differs", "2 kinds"),
    (LISTED + '            "NanoCpus": 1000000000,\n', "few-cores", "1 usable"),
    (LISTED + "1073741824 bytes (1.1 GB, 1.0 GiB) copied, 58.2 s, 18.4 MB/s\n", "storage-slow",
     "18.4 MB/s"),
    (LISTED + "md0 : active raid5\n  1125 blocks super 1.2 level 5 [4/3] [UU_U]\n",
     "host-part-failing",
     "UU_U"),
    (OOM.format("0.40") + GPUSTAT + HEAD, "gpu-held-by-others", "of petra"),
    (QUOTED.format("46.9") + PS + HEAD, "gpu-held-by-others", "of dana"),
    (LISTED + "max 88213\noom 14\noom_kill 3\n", "host-memory-killed", "memory limit"),
]  # fmt: skip

SILENT = [
    COMPOSE + "torch 2.6.0+cu124\nIs CUDA available: True\n",
    PROTOBUF + HEAD,
    "ERROR: pip's dependency resolver does not currently take into account all\n" + PROTOBUF + HEAD,
    PINNED + USED,
    WHEEL.format("2.8") + "torch==2.8.0\n",
    "natten==0.17.5+torch290cu128\ntorch==2.9.1\ntorch_scatter==2.1.2+pt29cu128\n",
    "pip install x/flash_attn-2.7.4+cu12torch2.6cxx11abiFALSE-cp311.whl\ntorch==2.8.0\n",
    REPORT + NVCC.format("11.5", "11.5"),
    REPORT + NVCC.format("12.4", "12.4") + "object has no attribute 'x'\nninja -v error\n",
    LISTED + "$ apptainer exec --nv t.sif python -c 'import torch'\n2.4.1+cu121 True\n",
    "$ docker run -it img python a.py\n" + LISTED,
    LISTED + "NVIDIA_VISIBLE_DEVICES=void\n2.4.1+cu121 True\n",
    POD.format("        nvidia.com/gpu: 1\n") + LISTED,
    POD.format("") + LISTED,
    OFFERS.format(8) + "server.go:275] 'nvidia.com/gpu' device marked unhealthy: GPU-1c\n" + LISTED,
    NODE.format("MIXED", "none") + LISTED,
    NODE.format("IDLE+CLOUD+POWERED_DOWN", "idle") + LISTED,
    VFIO.format("vfio-pci") + LISTED,
    HEAD + SLICES.format("a.py").replace(",MIG-5f7e1b40-7dbb-5c34", ""),
    NCCL.format("a", "2.21.5") + NCCL.format("b", "2.21.5") + LISTED,
    LINK.format(1500) + PING + LISTED,
    "NCCL_IB_GID_INDEX=3\n" + GIDS.format("fe80") + LISTED,
    PORT.format(0, "Initializing") + PORT.format(1, "Active") + LISTED,
    RDMA.format(0, "ACTIVE", "LINK_UP") + RDMA.format(3, "DOWN", "DISABLED") + LISTED,
    "LinkDownedCounter:...............1\nSymbolErrorCounter:..............0\n" + LISTED,
    "# Out of bounds values : 0 OK\n\tGPU 3: OK\n" + LISTED,
    COPIES.format("54.9") + LISTED,
    "NCCL_P2P_DISABLE=1\n" + LISTED,
    "NCCL INFO NET/OFI Selected Provider is efa (found 16 nics)\n" + LISTED,
    table(COOL, COOL),
    table("  0%   58C    P2             40W /  350W", use=20),
    table("  0%   47C    P0             79W /  150W", name="NVIDIA A10"),
    table("  0%   38C    P8             21W /  350W", use=3),
    table(" 30%   61C    P2            249W /  250W", " 30%   62C    P2            240W /  250W"),
    LISTED + POLICY.format("3.60 GHz"),
    LISTED + "%Cpu(s): 41.2 us,  3.1 sy, 12.0 id,  0.4 si,  1.2 st\n",
    LISTED + OTHER,
    LISTED + '            "NanoCpus": 0,\n',
    LISTED + "1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.41 s, 2.6 GB/s\n",
    LISTED + "md0 : active raid5\n  1125 blocks super 1.2 level 5 [4/4] [UUUU]\n",
    LISTED + "max 0\noom 0\noom_kill 0\n",
    LISTED + "$ echo $CUDA_VISIBLE_DEVICES\n\n$ whoami\n",
    LISTED + OTHER + "CUDA_VISIBLE_DEVICES=0\n2.4.1+cu121 True\n",
]


def problems(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report"))
            if each.is_problem}  # fmt: skip


@pytest.mark.parametrize(("text", "cause", "words"), NAMED, ids=[row[1] for row in NAMED])
def test_what_lines_say_together_is_named(text: str, cause: str, words: str) -> None:
    found = problems(text)["DRV003"]
    assert cause in found.verdict.causes
    assert words in found.verdict.summary


@pytest.mark.parametrize("text", SILENT)
def test_what_resembles_it_is_none(text: str) -> None:
    try:
        found = problems(text)
    except UserError:  # no report
        return
    assert found == {}


def test_an_empty_line_behind_echo_selects_nothing() -> None:
    assert read(LISTED + "$ echo $CUDA_VISIBLE_DEVICES\n\n$ whoami\n").visible_devices == ()
    assert read("CUDA_VISIBLE_DEVICES=\n" + LISTED).visible_devices == (
        ("CUDA_VISIBLE_DEVICES", ""),
    )


def test_a_gpu_without_any_link_is_named_and_not_those_that_lack_theirs_to_it() -> None:
    up, down = "\t Link 0: 25 GB/s\n", "\t Link 0: <inactive>\n"
    gpus = "".join(
        f"GPU {n}: NVIDIA A100-SXM4-40GB (UUID: GPU-1f0f3b43-5fa8-7c44-8c2a-9f0db2f0a60{n})\n"
        + (down * 2 if n == 3 else up + down.replace("0:", "1:"))
        for n in range(4)
    )
    mesh = "GPU0 X NV4 NV4 SYS\nGPU1 NV4 X NV4 SYS\nGPU2 NV4 NV4 X SYS\nGPU3 SYS SYS SYS X\n"
    watched = {each.uuid[-1]: each.nvlinks_down for each in read(gpus + mesh).watched}
    assert watched["3"]
    assert not any(count for number, count in watched.items() if number != "3")
    assert read(gpus).watched[3].nvlinks_down
    assert read(gpus.replace("SXM4-40GB", "PCIE-40GB")).watched[-1].uuid.endswith("2")


def test_a_build_for_the_cpu_is_known_by_an_arrow() -> None:
    text = "RTX 3080, driver 573.44\ntorch.__version__ \u2192 2.9.1+cpu\n"
    assert (read(text).torch, read(text).cuda) == ("2.9.1+cpu", "")


@pytest.mark.parametrize("gives", [
    "    gpus: all\n", "    runtime: nvidia\n", "    devices:\n      - nvidia.com/gpu=all\n",
    "    deploy:\n      resources:\n        reservations:\n          devices:\n"
    "            - driver: nvidia\n",
    "            - driver: \"nvidia\"\n", "            - capabilities:\n                - gpu\n",
    "    environment:\n      NVIDIA_VISIBLE_DEVICES: all\n", "    extends:\n      file: gpu.yml\n",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n",
])  # fmt: skip
def test_a_compose_file_that_gives_gpus_is_not_accused(gives: str) -> None:
    text = LISTED + COMPOSE + gives + "Is CUDA available: False\n"
    assert not [each for each in read(text).reported if "compose" in each.line]


@pytest.mark.parametrize("text", [
    "services:\n  db:\n    image: postgres:16\n",
    "jobs:\n  gpu:\n    services:\n      redis:\n        build: .\n",
])  # fmt: skip
def test_services_that_train_nothing_need_no_gpu(text: str) -> None:
    text = LISTED + text + "Is CUDA available: False\n"
    assert not [each for each in read(text).reported if "compose" in each.line]


@pytest.mark.parametrize(("text", "value"), [
    ("$ printenv CUDA_VISIBLE_DEVICES\n7\n", "7"), ("PS> $env:CUDA_VISIBLE_DEVICES\n-1\n", "-1"),
    ("C:\\>echo %CUDA_VISIBLE_DEVICES%\n3\n", "3"), ('$env:CUDA_VISIBLE_DEVICES="1"\n5\n', "1"),
    (">>> os.environ['CUDA_VISIBLE_DEVICES']\n''\n", ""),
    ("In [2]: os.environ.get('CUDA_VISIBLE_DEVICES')\nOut[2]: '4'\n", "4"),
    ("print(os.getenv('CUDA_VISIBLE_DEVICES'))\n0,1\n", "0,1"),
])  # fmt: skip
def test_a_variable_that_a_prompt_prints_is_read(text: str, value: str) -> None:
    assert read(LISTED + text).visible_devices == (("CUDA_VISIBLE_DEVICES", value),)


@pytest.mark.parametrize("text", [
    ">>> os.environ.get('CUDA_VISIBLE_DEVICES')\n>>> torch.__version__\n",
    "print(os.environ['CUDA_VISIBLE_DEVICES'])\nmodel = build()\n",
])  # fmt: skip
def test_a_variable_whose_value_is_not_shown_is_none(text: str) -> None:
    assert read(LISTED + text).visible_devices == ()


LOST = "kernel: NVRM: Xid (PCI:0000:0b:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"


@pytest.mark.parametrize("told", [
    "no errors in syslog since the update\n", "no problem with the other node since March\n",
    "It hasn't happened since.\n", "It had been running since May without a problem.\n",
])  # fmt: skip
def test_no_words_of_a_person_acquit_a_gpu_whose_kernel_log_shows_a_fault(told: str) -> None:
    assert any(gpu.lost for gpu in read(LISTED + LOST + told).gpus)


MISMATCH = (
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 595.71\n"
)
REFUSED = (
    "[{at}] NVRM: API mismatch: the client 'kwin_wayland' (pid 1005)\n"
    "               NVRM: has the version 595.84, but this kernel module has\n"
    "               NVRM: the version 595.80.  Please make sure that this\n"
)
MODULE = "$ modinfo nvidia | grep version\nversion:        {}\n"
GSP = "NVRM: GPU0 RmInitAdapter: Cannot initialize GSP firmware RM\n"
STAY = "driver-parts-differ"


def test_a_mismatch_names_both_versions() -> None:
    module = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  590.48.01  Thu Oct  6 21:38:55 UTC\n"
    named = problems(MISMATCH + module)["DRV001"].verdict.summary
    assert "(library 595.71, kernel module 590.48.01)" in named
    assert "kernel module" not in problems(MISMATCH)["DRV001"].verdict.summary


@pytest.mark.parametrize(
    "text",
    [
        MISMATCH + MODULE.format("595.58.03") + GSP,
        REFUSED.format(at="9000.42467") + MODULE.format("595.80"),
        REFUSED.format(at="    9.424670"),
        "After the update and a reboot, nvidia-smi says:\n" + MISMATCH,
        MISMATCH + "Tried rebooting the system, but still doesn't work.\n",
    ],
    ids=["on disk", "on disk by the kernel", "just started", "told", "in vain"],
)
def test_parts_of_the_driver_that_a_restart_does_not_join(text: str) -> None:
    found = problems(text)
    assert all("one version, then reboot" in each.fix for each in found.values())
    assert STAY in found["DRV003"].verdict.causes


@pytest.mark.parametrize(
    "text",
    [
        MISMATCH + MODULE.format("595.71.05"),
        REFUSED.format(at="91234.424670"),
        LISTED + MISMATCH + "sudo reboot\nIt works again after a reboot.\n",
        LISTED + MISMATCH + "A reboot fixed it for the other node.\n",
        "It still worked after the reboot on Monday. Today:\n" + MISMATCH,
        "It still fails after a reboot of the switch.\n" + MISMATCH + " up 3 days, 20:11\n",
        "The runbook, of which we are at step 1:\nsudo reboot\n" + MISMATCH,
    ],
    ids=["upgraded", "long up", "restarted later", "helped", "worked", "up for days", "planned"],
)
def test_a_driver_that_was_upgraded_under_its_module_needs_a_restart(text: str) -> None:
    found = problems(text)
    assert found
    assert all("reboot" in each.fix for each in found.values())
    assert not any(STAY in each.verdict.causes for each in found.values())


@pytest.mark.parametrize(
    "text",
    [
        "In the container:\n" + MISMATCH + MODULE.format("550.54"),
        MISMATCH + "$ nvidia-smi --query-gpu=driver_version\n550.54\n" + MODULE.format("550.54"),
    ],
    ids=["container", "the machine's own answers"],
)
def test_libraries_of_a_container_are_not_those_on_the_disk(text: str) -> None:
    assert not any(STAY in each.verdict.causes for each in problems(text).values())


NO_NMS = "RuntimeError: operator torchvision::nms does not exist\n"


@pytest.mark.parametrize(
    ("torch", "vision", "cause"),
    [
        ("2.9.0+cpu", "0.24.0", "torchvision-code-missing"),
        ("2.7.1", "0.22.1", "torchvision-code-missing"),
        ("2.6.0", "0.23.0", "name-moved"),
    ],
)
def test_operators_that_a_torchvision_of_the_right_release_lacks(
    torch: str, vision: str, cause: str
) -> None:
    text = f"torch         {torch}\ntorchvision   {vision}\n{NO_NMS}"
    assert problems(text)["DRV003"].verdict.causes == (cause,)


def test_torch_that_answers_at_a_prompt_imports_although_collect_env_found_none() -> None:
    env = "Collecting environment information...\nPyTorch version: N/A\nIs debug build: N/A\n"
    assert "TOR001" in problems(env)
    assert "TOR001" not in problems(f">>> import torch\n>>> torch.xpu.is_available()\nFalse\n{env}")
    assert "TOR001" in problems(f">>> import torch\n>>> torch.__version__\nTraceback (most\n{env}")


NO_HANDLE = "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error\n"


def test_a_gpu_that_only_a_container_lost_returns_no_machine() -> None:
    assert "GPU003" in problems(NO_HANDLE)
    found = problems(f"In the container:\n{NO_HANDLE}On the host nvidia-smi works.\n")
    assert "GPU003" not in found
    assert "container" in found["DRV003"].fix
    log = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
    assert "GPU003" in problems(f"{NO_HANDLE}On the host nvidia-smi works.\n{log}")


@pytest.mark.parametrize(
    "told",
    [
        "Bare metal, no docker. Everything else on the host works:\n",
        "I stopped all containers, but also on the host it no longer works.\n",
        "On the host nvidia-smi works for the others. GPU is lost.\n",
    ],
)
def test_a_gpu_that_its_host_lost_as_well_is_no_matter_of_a_container(told: str) -> None:
    assert "GPU003" in problems(f"{told}{NO_HANDLE}")


def test_a_board_whose_firmware_does_not_start_is_no_matter_of_the_driver() -> None:
    wait = "NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress 0x3)\n"
    failed = "NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)\n"
    assert "gpu-firmware-not-booted" in problems(GSP + failed + wait)["DRV003"].verdict.causes
    assert "gpu-firmware-not-booted" not in problems(GSP + failed)["DRV003"].verdict.causes


def test_a_lost_gpu_leaves_no_remedy_for_one_that_did_not_start() -> None:
    lost = (
        "NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "NVRM: fallen off the bus and is not responding to commands.\n"
    )
    probe = "NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
    assert problems(lost + probe).keys() == {"GPU001", "GPU003"}
    assert "DRV003" in problems(probe)


def test_a_build_for_the_cpu_is_known_by_its_assertion_where_the_text_names_a_gpu() -> None:
    raised = "AssertionError: Torch not compiled with CUDA enabled\n"
    found = problems(f"RTX 5060 Ti 16GB\nWindows 11\n{raised}")
    assert found.keys() == {"TOR002"}
    assert any("whl/cu" in each for each in found["TOR002"].verdict.commands)
    assert problems("RTX 5060 Ti 16GB\nWindows 11\ntorch 2.9.1+cu128\n") == {}
