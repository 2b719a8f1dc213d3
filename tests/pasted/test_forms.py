"""Every form of report that people paste, and error lines beside one or alone.

The texts are our own, in the structure of the public ones that the comments name.
"""

from __future__ import annotations

import base64
import contextlib
import re
from typing import Any

import pytest

from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor.checks.torch_build.wheels import DRIVER_CUDA
from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Interpreter, Torch
from doctor.facts.machine import Driver, Gpu
from doctor.judge.check import Finding, Owner, Status
from doctor.pasted.lines import clean


def facts(text: str) -> Facts:
    return facts_of_text(text, "report")


def findings(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts(text))}


def problems(text: str) -> set[str]:
    return {code for code, each in findings(text).items() if each.is_problem}


# sgl-project/sglang#27487, EricLBuehler/mistral.rs#2287, projectbluefin/finpilot#160
TABLE = """Sun Jun  7 08:16:57 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI {tool:<19} {kernel} Version: {driver:<10} {user} Version: {cuda:<8}|
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H200                    On  |   00000000:63:00.0 Off |                    0 |
| N/A   26C    P0            139W /  700W |       0MiB / 143771MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""


def table(driver: str, cuda: str) -> str:
    new = int(driver.split(".")[0]) >= 610
    names = {"kernel": "KMD", "user": "CUDA UMD"} if new else {"kernel": "Driver", "user": "CUDA"}
    return TABLE.format(tool=driver, driver=driver, cuda=cuda, **names)


@pytest.mark.parametrize("branch", [each for each in DRIVER_CUDA if each >= 410])
def test_the_table_of_every_driver_branch_is_read(branch: int) -> None:
    cuda = ".".join(map(str, DRIVER_CUDA[branch]))
    read = facts(table(f"{branch}.43.02", cuda))
    assert isinstance(read.driver, Driver)
    major, minor = DRIVER_CUDA[branch]
    assert (read.driver.version, read.driver.cuda_version) == (
        f"{branch}.43.02",
        major * 1000 + minor * 10,
    )
    assert isinstance(read.gpus, tuple)
    assert read.gpus[0].name == "NVIDIA H200"


def test_a_header_of_nvidia_smi_that_is_not_understood_is_reported_as_such() -> None:
    odd = table("620.01.02", "13.5").replace("KMD Version:", "Kernel part:")
    assert "header that is not understood (NVIDIA-SMI 620.01.02 Kernel part" in facts(odd).origin
    gpus = facts(odd).gpus
    assert isinstance(gpus, tuple)
    assert gpus[0].memory_total == 143771 << 20
    assert findings(odd)["DRV002"].status is Status.UNKNOWN


# docs.nvidia.com/deploy/nvidia-smi: KMD Version and CUDA UMD Version take the older labels' place
QUERY = """==============NVSMI LOG==============

Timestamp                                 : Mon Jul 20 06:15:02 2026
KMD Version                               : 610.43.03
CUDA UMD Version                          : 13.3
Driver Version                            : [Deprecated; will be removed in CUDA 14.0]

Attached GPUs                             : 1
GPU 00000000:01:00.0
    Product Name                          : NVIDIA GeForce RTX 5090
    FB Memory Usage
        Total                             : 32607 MiB
"""
XML = """<?xml version="1.0" ?>
<nvidia_smi_log>
<kmd_version>610.43.03</kmd_version>
<cuda_umd_version>13.3</cuda_umd_version>
<gpu id="00000000:01:00.0"><product_name>NVIDIA GeForce RTX 5090</product_name></gpu>
</nvidia_smi_log>
"""


@pytest.mark.parametrize("text", [QUERY, XML], ids=["text", "xml"])
def test_the_newer_labels_of_nvidia_smi_q_are_read(text: str) -> None:
    read = facts(text)
    assert isinstance(read.driver, Driver)
    assert (read.driver.version, read.driver.cuda_version) == ("610.43.03", 13030)


# AlexeyAB/darknet#5844 (power), NVIDIA/open-gpu-kernel-modules#1193 (the fan alone)
def test_a_gpu_that_nvidia_smi_cannot_read_is_returned_and_a_fan_alone_is_not() -> None:
    fan = table("610.43.02", "13.3").replace("| N/A   26C", "| ERR!  26C")
    assert problems(fan) == set()
    sick = fan.replace("139W /  700W", "ERR! /  700W").replace("26C    P0  ", "ERR!   ERR!")
    named = findings(sick)["GPU001"]
    assert (named.status, named.owner) == (Status.FAIL, Owner.MACHINE)
    assert "ERR! for fan, temperature, performance, power" in named.verdict.summary


# huggingface/transformers src/transformers/cli/system.py
TRANSFORMERS = """Copy-and-paste the text below in your GitHub issue:

- `transformers` version: 5.3.0
- Platform: Linux-6.8.0-60-generic-x86_64-with-glibc2.39
- Python version: 3.12.3
- Accelerate version: 1.13.0
- PyTorch version (accelerator?): 2.5.1+cu121 (CUDA)
- Using GPU in script?: <fill in>
- GPU type: NVIDIA GeForce RTX 5090
"""
# huggingface/accelerate#3225
ACCELERATE = """- `Accelerate` version: 1.0.1
- Platform: Linux-5.15.0-213-generic-x86_64-with-glibc2.27
- `accelerate` bash location: /opt/env/bin/accelerate
- Python version: 3.10.9
- PyTorch version (GPU?): 2.5.1+cu121 (True)
- PyTorch XPU available: False
- System RAM: 125.80 GB
- GPU type: NVIDIA GeForce RTX 5090
- `Accelerate` default config:
        - distributed_type: MULTI_GPU
        - num_processes: 4
"""
# hiyouga/LlamaFactory#8164
FACTORY = """- `llamafactory` version: 0.9.3.dev0
- Platform: Linux-6.8.0-59-generic-x86_64-with-glibc2.35
- Python version: 3.10.0
- PyTorch version: 2.5.1+cu121 (GPU)
- Transformers version: 4.49.0
- Accelerate version: 1.2.1
- GPU type: NVIDIA GeForce RTX 5090
- GPU number: 8
- GPU memory: 31.25GB
"""
# huggingface/lerobot#2005
LEROBOT = """- lerobot version: 0.3.4
- Platform: Linux-6.14.0-28-generic-x86_64-with-glibc2.39
- Python version: 3.10.18
- PyTorch version: 2.5.1
- Is PyTorch built with CUDA support?: True
- Cuda version: 12.1
- GPU model: NVIDIA GeForce RTX 5090
- Using GPU in script?: <fill in>
"""
# sgl-project/sglang#10216
SGLANG = """Python: 3.12.11 (main, Jun  4 2025, 08:56:18) [GCC 11.4.0]
CUDA available: True
GPU 0,1: NVIDIA GeForce RTX 5090
GPU 0,1 Compute Capability: 12.0
CUDA_HOME: /usr/local/cuda
NVCC: Cuda compilation tools, release 12.1, V12.1.68
CUDA Driver Version: 570.124.06
PyTorch: 2.5.1+cu121
sglang: 0.5.2rc0
vllm: Module Not Found
NVIDIA Topology:
        GPU0    GPU1    CPU Affinity
GPU0     X      NV18    0-47,96-143
"""
WRITTEN = "- GPU: 2x RTX 5090 (32 GB each)\n- Driver: 570.124.06\n- PyTorch: 2.5.1+cu121\n"
CELLS = "| PyTorch | 2.5.1+cu121 |\n| GPU | RTX 5090 |\n| Driver version | 570.124.06 |\n"
LISTS = {
    "transformers env": TRANSFORMERS,
    "accelerate env": ACCELERATE,
    "llamafactory-cli env": FACTORY,
    "lerobot-info": LEROBOT,
    "sglang check_env": SGLANG,
    "a list of versions": WRITTEN,
}


def quoted(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("change", [str, quoted, lambda text: re.sub(r"(?m)^", "    ", text)])
@pytest.mark.parametrize("kind", LISTS)
def test_an_env_command_states_torch_and_the_gpu_and_is_judged(kind: str, change: Any) -> None:
    text = change(LISTS[kind])
    read = facts(text)
    assert kind in read.origin
    assert isinstance(read.torch, Torch)
    assert (read.torch.version.split("+")[0], read.torch.cuda) == ("2.5.1", "12.1")
    assert problems(text) == {"TOR003"}
    # cu121 of torch 2.5 is in no table: the toolkit decides
    assert "requires a build for CUDA 12.8" in findings(text)["TOR003"].verdict.summary


def test_a_table_of_markdown_is_a_list_too() -> None:
    assert "TOR003" in problems(CELLS)


@pytest.mark.parametrize("kind", LISTS)
def test_the_same_lists_of_a_machine_that_fits_are_not_red(kind: str) -> None:
    text = LISTS[kind].replace("2.5.1+cu121", "2.8.0+cu128").replace("PyTorch version: 2.5.1", "x:")
    text = text.replace("Cuda version: 12.1", "Cuda version: 12.8").replace(
        "x:", "PyTorch version: 2.8.0"
    )
    assert problems(text) == set()


def test_eight_gpus_and_a_driver_are_read_from_lists() -> None:
    gpus = facts(FACTORY).gpus
    assert isinstance(gpus, tuple)
    assert len(gpus) == 8
    of_sglang = facts(SGLANG)
    assert isinstance(of_sglang.driver, Driver)
    assert isinstance(of_sglang.gpus, tuple)
    assert of_sglang.driver.version == "570.124.06"
    assert [gpu.capability for gpu in of_sglang.gpus] == [(12, 0), (12, 0)]
    host = facts(TRANSFORMERS).host
    assert isinstance(host, Host)
    assert (host.system, host.release, host.arch) == ("Linux", "6.8.0-60-generic", "x86_64")


@pytest.mark.parametrize("accelerator", ["NA", "False", "XPU", "NPU"])
def test_a_list_without_a_gpu_accuses_nobody(accelerator: str) -> None:
    text = TRANSFORMERS.replace("(CUDA)", f"({accelerator})").replace("- GPU type", "- Other")
    assert problems(text) == set()
    assert problems(text.replace("+cu121", "+cpu")) == set()


# torch/utils/collect_env.py of 2.9 and newer, on machines without an NVIDIA GPU
WITHOUT = """PyTorch version: 2.9.0+{build}
Is debug build: False
CUDA used to build PyTorch: None
ROCM used to build PyTorch: N/A

OS: Ubuntu 24.04.2 LTS (x86_64)
Python version: 3.12.3 (main, Feb  4 2025, 14:48:35) [GCC 13.3.0] (64-bit runtime)
Python platform: Linux-{kernel}-x86_64-with-glibc2.39
Is CUDA available: False
CUDA runtime version: No CUDA
GPU models and configuration: No CUDA
Nvidia driver version: No CUDA
cuDNN version: No CUDA
Is XPU available: {xpu}
"""


@pytest.mark.parametrize("build", ["cpu", "xpu"])
@pytest.mark.parametrize("kernel", ["6.8.0-52-generic", "5.15.153.1-microsoft-standard-WSL2"])
@pytest.mark.parametrize("error", ["", "RuntimeError: Found no NVIDIA driver on your system.\n"])
def test_a_report_that_says_there_is_no_nvidia_gpu_makes_no_nvidia_failure(
    build: str, kernel: str, error: str
) -> None:
    text = WITHOUT.format(build=build, kernel=kernel, xpu=build == "xpu")
    assert problems(text + error) == set()


ENV = """PyTorch version: 2.9.1+cu128
CUDA used to build PyTorch: 12.8
ROCM used to build PyTorch: N/A
OS: Ubuntu 24.04.2 LTS (x86_64)
Python version: 3.12.3 (main, Feb  4 2025, 14:48:35) [GCC 13.3.0] (64-bit runtime)
Python platform: Linux-6.8.0-52-generic-x86_64-with-glibc2.39
Is CUDA available: {available}
GPU models and configuration:
GPU 0: NVIDIA H100 80GB HBM3
GPU 1: NVIDIA H100 80GB HBM3
Nvidia driver version: 580.95.05
"""
GONE, SEEN = ENV.format(available=False), ENV.format(available=True)
START = "RuntimeError: Unexpected error from cudaGetDeviceCount(). "


@pytest.mark.parametrize(
    ("text", "line", "code", "remedy"),
    [
        (GONE, START + "Error 802: system not yet initialized", "DRV001", "fabric manager"),
        (GONE, START + "Error 803: system has unsupported display driver / cuda driver combination",
         "DRV001", "ld.so.conf.d"),
        (GONE, "Error 804: forward compatibility was attempted on non supported HW", "DRV001",
         "LD_LIBRARY_PATH"),
        (GONE, "RuntimeError: No CUDA GPUs are available", "GPU001", "container"),
        (GONE, "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or "
         "unavailable", "GPU001", "GPU"),
        (SEEN, "RuntimeError: CUDA error: no kernel image is available for execution on the device",
         "TOR003", "the extension whose kernel failed"),
        (SEEN, "RuntimeError: CUDA error: operation not supported", "TOR003", "530"),
        (SEEN, "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported "
         "toolchain.", "TOR003", "driver"),
        (SEEN, "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "TOR004",
         "libcudnn"),
        (SEEN, "RuntimeError: CUDA error: uncorrectable ECC error encountered", "GPU001", "eturn"),
        (SEEN, "ImportError: /opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so: "
         "undefined symbol: ncclCommResume", "TOR001", "nvidia-nccl-cu"),
    ],
)  # fmt: skip
def test_an_error_beside_a_report_is_put_where_its_judge_expects_it(
    text: str, line: str, code: str, remedy: str
) -> None:
    assert code not in problems(text) or text is GONE
    for pasted in (f"{line}\n\n{text}", f"{text}\n```\n{line}\n```\n", quoted(f"{text}\n{line}")):
        named = findings(pasted)[code]
        assert named.status is Status.FAIL
        assert remedy in " ".join((named.fix, *named.commands))


@pytest.mark.parametrize(
    "line",
    [
        "if 'no kernel image is available' in str(error): return False",
        "# RuntimeError: No CUDA GPUs are available means that the container has none",
        "RuntimeError: No CUDA GPUs are available",  # of a worker from which they are hidden
        START + "Error 803: system has unsupported display driver / cuda driver combination",
        "KeyError: 'labels'",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ],
)
def test_a_machine_that_works_is_not_accused_by_what_stands_beside(line: str) -> None:
    assert problems(f"{SEEN}\n{line}\n") == set()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (START + "Error 802: system not yet initialized", "DRV001"),
        ("RuntimeError: No HIP GPUs are available", "GPU001"),
        ("ImportError: /opt/lib/torch/lib/libtorch_cuda.so: undefined symbol: ncclAlltoAll",
         "TOR001"),
        ("NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current "
         "PyTorch installation.", "TOR003"),
        ("RuntimeError: unable to mmap 512 bytes from file: Cannot allocate memory (12)", "DRV003"),
    ],
)  # fmt: skip
def test_a_bare_error_line_of_the_machine_is_judged(line: str, code: str) -> None:
    assert code in problems(line)


@pytest.mark.parametrize(
    ("line", "id"),
    [
        ("RuntimeError: Expected all tensors to be on the same device, but found cuda:0", "device"),
    ],
)
def test_a_text_without_a_report_names_a_line_that_is_known(line: str, id: str) -> None:
    with pytest.raises(UserError, match=r"but this line is known: RuntimeError: .*doctor explain"):
        facts(f"It ends like this:\n{line}\n")


@pytest.mark.parametrize(
    "text",
    [
        "loss 0.5\nloss 0.4\n",
        "[    0.350625] Expanded resource Reserved due to conflict with PCI Bus 0000:00\n",
        "building\n" * 90 + "This kernel module is required for the proper operation.\n",
    ],
)
def test_a_text_of_which_nothing_is_known_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="contains no report that is known; paste the whole output"):
        facts(text)


def test_lines_of_encoded_files_are_left_out() -> None:
    encoded = base64.b64encode(bytes(range(57)) * 40).decode()
    lines = [encoded[at : at + 76] for at in range(0, len(encoded), 76)]
    assert clean("\n".join(["NVRM: first", *lines, "NVRM: last"])) == ["NVRM: first", "NVRM: last"]


# Syllo/nvtop#341, ROCm/rocm-systems#2987, ROCm/rocm_smi_lib#160, ROCm/legacy-rocm-build#4043
ROCM_SMI = """================= ROCm System Management Interface =================
====================================== Concise Info ======================================
Device  Node  IDs              Temp        Power     Partitions          SCLK    MCLK    VRAM%
0       2     0x74a1,   32700  39.0°C      134.0W    NPS1, SPX, 0        132Mhz  900Mhz  0%
1       3     0x74a1,   3884   41.0°C      139.0W    NPS1, SPX, 0        131Mhz  900Mhz  0%
================================== End of ROCm SMI Log ===================================
"""
AMD_SMI = """GPU: 0
    ASIC:
        MARKET_NAME: AMD Instinct MI350X
        TARGET_GRAPHICS_VERSION: gfx950
    DRIVER:
        NAME: amdgpu
"""
ROCMINFO = """ROCk module version 6.10.5 is loaded
HSA System Attributes
Agent 1
  Name:                    AMD EPYC 9474F 48-Core Processor
  Device Type:             CPU
Agent 2
  Name:                    gfx942
  Uuid:                    GPU-cf1182f2988c0a4c
  Marketing Name:          AMD Instinct MI300X
  Device Type:             GPU
"""
DENIED = """ROCk module version 6.7.0 is loaded
Unable to open /dev/kfd read-write: Permission denied
alice is not member of "render" group
"""


@pytest.mark.parametrize(
    ("text", "count"), [(ROCM_SMI, 2), (AMD_SMI, 1), (ROCMINFO, 1)], ids=["smi", "amd", "info"]
)
def test_rocm_tools_are_read_and_nvidia_checks_left_out(text: str, count: int) -> None:
    read = facts(text)
    assert isinstance(read.host, Host)
    assert (read.host.amd_devices, read.host.nvidia_devices) == (count, 0)
    assert problems(text) == set()
    assert findings(text)["DRV001"].status is Status.SKIP


def test_a_device_of_rocm_that_cannot_be_opened_is_named_with_the_groups() -> None:
    named = findings(DENIED + "PyTorch: 2.9.1+rocm6.4\nPlatform: Linux-6.8.0-x86_64\n")["GPU001"]
    assert named.status is Status.FAIL
    told = " ".join((named.fix, *named.commands))
    assert "render" in told
    assert "nvidia" not in told.lower()


# NVIDIA/DCGM#253, NVIDIA/go-dcgm#52
DIAG = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
| Driver Version Detected   | 570.148.08                                     |
|-----  Deployment  --------+------------------------------------------------|
| Persistence Mode          | Fail                                           |
+-----  Hardware  ----------+------------------------------------------------+
| memory                    | Pass                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Pass                                     |
"""
OLD_DIAG = DIAG.replace(
    "| memory                    | Pass", "| GPU Memory                | Pass - All"
)
# docs.nvidia.com/health-validation/reference/verdict-schema
VERDICT = """{"overall_severity": "CRITICAL", "affected_components": [
  {"category": "xid", "max_severity": "CRITICAL", "check_ids": ["gpu_xid_79"],
   "entities": ["GPU-5428af19-1e82-a38c-ee42-cdd3ad745b7e"]}]}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            DIAG.replace("Pass   ", "Fail   ", 1).replace("GPU1: Pass", "GPU1: Fail"),
            "memory failed",
        ),
        (OLD_DIAG.replace("Pass - All", "Fail - GPU: 1"), "GPU Memory failed"),
        (VERDICT, "CRITICAL: gpu_xid_79"),
    ],
)
def test_a_gpu_that_another_tool_condemns_is_returned(text: str, words: str) -> None:
    named = findings(text)["GPU003"]
    assert (named.status, named.owner) == (Status.FAIL, Owner.MACHINE)
    assert words in named.verdict.summary


@pytest.mark.parametrize(
    "text",
    [
        DIAG,  # a setting of the software
        OLD_DIAG,
        VERDICT.replace("CRITICAL", "WARNING"),
        VERDICT.replace('"xid"', '"cpu"'),
        VERDICT[:-20],  # cut off
        "hca_id: mlx5_0\n        port:   1\n            state:      PORT_DOWN (1)\n",
        "        GPU0    GPU1    CPU Affinity\nGPU0     X      SYS     0-31\n",
    ],
    ids=range(7),
)
def test_what_another_tool_does_not_condemn_is_not_red(text: str) -> None:
    assert problems(text) == set()


# huggingface/accelerate#3510, pytorch/pytorch#186591
PIP = """Package                  Version
------------------------ ---------
nvidia-nccl-cu12         2.29.3
nvidia-nccl-cu13         2.29.7
torch                    2.13.0+cu130
"""
FREEZE = "nvidia-nccl-cu12==2.29.3\nnvidia-nccl-cu13==2.29.7\ntorch==2.13.0+cu130\n"
IN_REPORT = SEEN + "[pip3] nvidia-nccl-cu12==2.29.3\n[pip3] nvidia-nccl-cu13==2.29.7\n"


@pytest.mark.parametrize("text", [PIP, FREEZE, IN_REPORT], ids=["list", "freeze", "collect_env"])
def test_two_packages_that_write_one_library_are_named(text: str) -> None:
    interpreter = facts(text).interpreter
    assert isinstance(interpreter, Interpreter)
    assert interpreter.packages == ("nvidia-nccl-cu12==2.29.3", "nvidia-nccl-cu13==2.29.7")
    named = findings(text)["TOR004"]
    assert named.status is Status.WARN
    assert "nvidia-nccl-cu12" in named.verdict.summary
    one = text.replace("nvidia-nccl-cu12", "nvidia-nvtx-cu12")
    assert findings(one)["TOR004"].status is Status.UNKNOWN


def test_nvidia_smi_lists_are_read() -> None:
    listed = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5428af19-1e82-a38c-ee42-cdd3ad745b7e)\n"
    head = "name, driver_version, memory.total [MiB], compute_cap\n"
    csv = f"{head}NVIDIA B300, 580.95.05, 280000 MiB, 10.3\n"
    (gpu,) = facts(listed).gpus or ()  # type: ignore[misc]
    assert (gpu.name, gpu.uuid) == (
        "NVIDIA H100 80GB HBM3", "GPU-5428af19-1e82-a38c-ee42-cdd3ad745b7e",
    )  # fmt: skip
    read = facts(csv)
    assert isinstance(read.gpus, tuple)
    assert isinstance(read.driver, Driver)
    assert (read.driver.version, read.gpus[0].capability) == ("580.95.05", (10, 3))
    assert read.gpus[0].memory_total == 280000 << 20


@pytest.mark.parametrize(
    ("torch", "cuda", "name", "status"),
    [
        ("2.2.2", "12.1", "NVIDIA GeForce RTX 5090", Status.FAIL),
        ("2.4.1", "12.4", "NVIDIA B200", Status.FAIL),
        ("2.3.1", "11.8", "NVIDIA GeForce RTX 5090", Status.FAIL),
        ("2.4.1", "12.4", "NVIDIA GB10", Status.FAIL),
        ("1.13.1", "11.7", "NVIDIA H100 80GB HBM3", Status.FAIL),
        ("1.13.1", "11.7", "NVIDIA GeForce RTX 4090", Status.UNKNOWN),  # it runs sm_86
        ("2.3.1", "11.8", "NVIDIA H100 80GB HBM3", Status.UNKNOWN),
        ("2.5.0a0+e000cf0ad9.nv24.10", "12.6", "NVIDIA B200", Status.WARN),  # has PTX for 9.0
    ],
)
def test_no_build_of_an_older_toolkit_has_machine_code_for_a_newer_gpu(
    torch: str, cuda: str, name: str, status: Status
) -> None:
    text = SEEN.replace("2.9.1+cu128", torch).replace("PyTorch: 12.8", f"PyTorch: {cuda}")
    text = text.replace("NVIDIA H100 80GB HBM3", name)
    assert findings(text)["TOR003"].status is status


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "- PyTorch version: " + "1" * 2_000_000,
        "- a: b\n" * 150_000,
        "| a | b |\n" * 150_000,
        "Error " * 300_000,
        "ROCm System Management Interface\n" + "GPU[0] : Card Series: " + "x" * 1_000_000,
        "name, driver_version\n" + "a,b\n" * 150_000,
        "RuntimeError: CUDA error: " + "no kernel image " * 100_000,
    ],
    ids=range(7),
)
def test_hostile_lists_end(text: str) -> None:
    with contextlib.suppress(UserError):
        assert isinstance(facts(text).smoke, Unknown)


def test_the_types_of_a_mixture_are_kept() -> None:
    both = facts(
        f"{SGLANG}\n{table('570.124.06', '12.8').replace('NVIDIA H200', 'NVIDIA GeForce RTX 5090')}"
    )
    assert isinstance(both.cuda, Cuda)
    assert isinstance(both.gpus, tuple)
    assert isinstance(both.gpus[0], Gpu)
    assert both.gpus[0].memory_total == 143771 << 20


@pytest.mark.parametrize(
    ("log", "codes", "words"),
    [
        (["NVRM: Xid (PCI:0000:ae:00): 79, GPU has fallen off the bus."], {"GPU001", "GPU003"},
         "Xid 79"),
        (["XID 79(GPU has fallen off the bus) detected on PCI:0000:ae:00"], {"GPU001", "GPU003"},
         "Xid 79"),
        (["NVRM: The NVIDIA GPU 0000:b3:00.0", "  NVRM: (PCI ID: 10de:26b5) installed in this",
          "  NVRM: fallen off the bus and is not responding to commands."], {"GPU001", "GPU003"},
         "fallen off"),
        (["NVRM: Xid (PCI:0000:3b:00): 48, DBE"], {"GPU003"}, "uncorrectable memory error"),
        (["NVRM: Xid (PCI:0000:3b:00): 63, Row Remapper"], {"GPU003"}, "replaced at the next"),
        (["NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python3, MMU Fault",
          "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 "
          "(Node Reboot Required)"], {"GPU003"}, "reboot the node"),
        (["NVRM: Xid (PCI:0000:3b:00): 45, pid=1, name=a, Ch 1 caused by previous Xid 149"],
         {"GPU003"}, "NVLink"),
        (["NVRM: Xid (PCI:0000:3b:00): 13, pid=1, name=python3, Graphics Exception"], set(), ""),
        (["NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
          "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05"], set(), ""),
    ],
)  # fmt: skip
def test_a_pasted_kernel_log_is_read(log: list[str], codes: set[str], words: str) -> None:
    text = "".join(f"[  84.73] {line}\n" for line in log) + "PyTorch version: 2.9.1+cu128\n"
    assert problems(text) == codes
    assert all(words in findings(text)[code].verdict.summary for code in codes)


def test_an_xid_is_put_at_the_gpu_of_the_table_that_has_its_address() -> None:
    log = "NVRM: Xid (PCI:0000:63:00): 64, Row Remapper\nNVRM: Xid (PCI:0000:99:00): 48, DBE\n"
    named = findings(table("580.95.05", "13.0") + log)["GPU003"]
    assert named.status is Status.FAIL
    assert "NVIDIA H200" in named.verdict.summary
    assert "Xid 64 in the kernel log" in named.verdict.summary
    assert "Xid 48" not in named.verdict.summary


LINK_UP, LINK_DOWN = "         Link {}: 25.781 GB/s\n", "         Link {}: <inactive>\n"


def nvlinks(*down: int) -> str:
    """`nvidia-smi nvlink -s` of GPUs with six links, of which so many are inactive."""
    text = ""
    for index, count in enumerate(down):
        text += f"GPU {index}: Tesla V100-SXM2-32GB (UUID: GPU-{index}234-5678)\n"
        text += "".join((LINK_DOWN if n < count else LINK_UP).format(n) for n in range(6))
    return text


PORTS = "hca_id: mlx5_0\n  state: PORT_ACTIVE (4)\nhca_id: mlx5_1\n  state: PORT_DOWN (1)\n"
FABRIC = (
    "hca_id: mlx5_0\n  state: PORT_ACTIVE (4)\n  link_layer: InfiniBand\n"
    "hca_id: mlx5_1\n  state: PORT_DOWN (1)\n  link_layer: Ethernet\n"
)
WIDTHS = "index, name, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
WIDTHS += "pcie.link.width.max\n"
BOARD = "65:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev {})\n"
BOARD += "  LnkCap: Port #0, Speed 16GT/s, Width x16\n  LnkSta: Speed 16GT/s, Width {}\n"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (nvlinks(0, 2), {"GPU007"}),
        (nvlinks(0, 0), set()),
        (nvlinks(6, 6), set()),  # no bridge
        (nvlinks(2, 2), set()),  # part of a board
        (PORTS, set()),
        (PORTS + "NCCL_IB_HCA=mlx5_1\n", {"DRV003"}),
        (PORTS + "mlx5_1 is down since this morning\n", {"DRV003"}),
        (PORTS + "mlx5_0 has no spare, but mlx5_1 is down\n", {"DRV003"}),
        (PORTS + "mlx5_1 is the unused second port of the BlueField, no cable.\n", set()),
        (PORTS + "We do not need it: mlx5_1 is not cabled\n", set()),
        (PORTS + "mlx5_1 is unused\nNCCL_IB_HCA=mlx5_0,mlx5_1\n", {"DRV003"}),
        (PORTS.replace("ACTIVE", "DOWN") + "# export NCCL_IB_HCA=mlx5_1 (old)\n", set()),
        (PORTS.replace("ACTIVE", "DOWN") + "NCCL_IB_DISABLE=1\nNCCL_IB_HCA=mlx5_1\n", set()),
        (PORTS.replace("ACTIVE", "DOWN") + "export NCCL_IB_HCA=mlx5_1\n", {"DRV003"}),
        (FABRIC + "mlx5_1 is the port of the BlueField\n", set()),
        (FABRIC.replace("Ethernet", "InfiniBand") + "mlx5_1 fails\n", {"DRV003"}),
        (FABRIC.replace("InfiniBand", "Ethernet") + "mlx5_1 fails\n", {"DRV003"}),
        (PORTS + "mlx5_0 port 1 ==> ib0 (Up)\nmlx5_1 port 1 ==> ib1 (Down)\n", set()),
        (PORTS + "  NIC0: mlx5_0\n  NIC1: mlx5_1\n$ ls\nmlx5_0  mlx5_1\n", set()),
        (PORTS + "link mlx5_1/1 state DOWN physical_state POLLING netdev ib1\n", set()),
        (WIDTHS + "0, NVIDIA A100-PCIE-40GB, 4, 4, 4, 16\n", {"GPU005"}),
        (WIDTHS + "0, NVIDIA A100-PCIE-40GB, 1, 4, 16, 16\n", set()),  # idle
        (WIDTHS + "0, NVIDIA GeForce RTX 4090, 4, 4, 4, 16\n", set()),  # riser or laptop
        (BOARD.format("a1", "x2 (downgraded)"), {"GPU005"}),
        (BOARD.format("a1", "x16"), set()),
        (BOARD.format("ff", "x16"), {"DRV003"}),
        (">>> torch.__version__, torch.version.cuda\n('2.3.0', None)\nOn a Jetson\n", {"TOR002"}),
        (">>> import torch; print(torch.__version__)\n2.9.1+cu128\n", set()),
        ("|  No MIG devices found  |\n", {"DRV003"}),
        ("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n"
         "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
         {"DRV001", "DRV003"}),
        ("GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaaaaaa-1111)\n  Link 5: CRC Errors: 991823\n",
         {"DRV003"}),
        ("GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaaaaaa-1111)\n  Link 5: CRC Errors: 12\n",
         set()),
        ("cudaGetDeviceCount returned 3\n-> initialization error\n", {"DRV001"}),
        ("$ echo $CUDA_VISIBLE_DEVICES\n-1\n-> no CUDA-capable device is detected\n", {"GPU001"}),
        ("pytorch  2.5.1  cpu_generic_py311_h1  conda-forge\n" + table("560.35.03", "12.6"),
         {"TOR002"}),
        ("NVIDIA-SMI 550.90.07  Driver Version: 550.90.07  CUDA Version: 12.4\ntorch 2.9.1+cu130\n",
         {"DRV002"}),
        ("On Windows 11 with an RTX 4070\n>>> torch.__version__\n'2.5.1+cpu'\n", {"TOR002"}),
        ("INFO: task nvidia-smi:812 blocked for more than 120 seconds.\n", {"DRV003"}),
        ("==============NVSMI LOG==============\nGPU 00000000:18:00.0\n"
         "    Product Name  : NVIDIA H100 80GB HBM3\n    Fabric\n        State  : In Progress\n",
         {"GPU003"}),
    ],
)  # fmt: skip
def test_links_prompts_and_lines_of_the_kernel_are_judged(text: str, codes: set[str]) -> None:
    assert problems(text) == codes


def test_the_line_that_says_most_decides() -> None:
    text = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.\nNo devices found. Waiting "
    named = findings(text + "indefinitely.\n")["DRV003"].verdict
    assert named.causes == ("container-without-gpu-runtime",)
    assert "further lines: pod-not-scheduled" in named.summary


IMAGE = (
    "NOTE: CUDA Forward Compatibility mode ENABLED.\n"
    "  Using CUDA 13.0 driver version 580.82.07 with kernel driver version 550.144.03.\n"
)
NO_COMPAT = "Error 804: forward compatibility was attempted on non supported HW\n"


def test_an_image_for_a_newer_driver_needs_that_driver() -> None:
    """On a GPU for data centers the same image works, and what it prints is no fault."""
    fix = findings(f"{IMAGE}{NO_COMPAT}\n{GONE}")["DRV001"].fix
    assert fix.startswith("Upgrade the host's driver")
    alone = findings(f"{NO_COMPAT}\n{GONE}")["DRV001"].fix
    assert alone.startswith("Compare the CUDA version")
    assert problems(f"{IMAGE}\n{SEEN}") == set()


MISMATCH = "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\n"
TWICE = "[pip3] nvidia-cudnn-cu12==9.10.2.21\n[pip3] nvidia-cudnn-cu13==9.15.1.9\n"
OTHERS = "[pip3] nvidia-nccl-cu12==2.27.5\n[pip3] nvidia-nccl-cu13==2.28.9\n"


@pytest.mark.parametrize(
    ("packages", "is_twice"),
    [(TWICE, True), (OTHERS + TWICE, True), (TWICE.splitlines()[0], False), (OTHERS, False)],
)
def test_two_packages_of_cudnn_are_the_cause_of_their_mismatch(
    packages: str, is_twice: bool
) -> None:
    fix = findings(f"{SEEN}\n{packages}\n{MISMATCH}")["TOR004"].fix
    assert fix.startswith("Keep ") is is_twice
    assert ("LD_LIBRARY_PATH" in fix) is not is_twice


DEEPSPEED = (
    "torch version .................... 1.12.1+cu113\ntorch cuda version ............... 11.3\n"
)


@pytest.mark.parametrize(
    ("line", "found"),
    [("", False), ("No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'\n", True)],
)
def test_a_ds_report_says_where_torch_finds_no_gpu(line: str, found: bool) -> None:
    assert ("GPU001" in problems(f"{line}{DEEPSPEED}")) is found


LOAD = "[   10.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  440.31\n"
HALTED = "[   99.{}] NVRM: Xid (PCI:0000:03:00): 62, pid={}, 0cb5(2d50) 00000000 00000000\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (LOAD + HALTED.format(1, 100) + LOAD + HALTED.format(2, 200) + LOAD, Status.WARN),
        (LOAD + HALTED.format(1, 100) + LOAD + HALTED.format(1, 100) + LOAD, Status.UNKNOWN),
        (LOAD + HALTED.format(1, 100) + LOAD, Status.UNKNOWN),
        (LOAD + HALTED.format(1, 100) + LOAD + HALTED.format(2, 200), Status.FAIL),
    ],
    ids=["came back", "one event in two logs", "once", "now"],
)
def test_an_xid_that_came_back_after_a_load_of_the_driver(text: str, status: Status) -> None:
    found = findings(text)["GPU003"]
    assert found.status is status
    assert ("of 2 earlier loads" in found.verdict.summary) is (status is Status.WARN)


# AlexeyAB/darknet#5844, NVIDIA/open-gpu-kernel-modules#1193
def test_two_readings_that_fail_are_named_also_in_comments_and_leave_the_rest_unknown() -> None:
    sick = table("610.43.02", "13.3").replace("| N/A   26C", "| ERR!  26C")
    sick = sick.replace("139W /  700W", "ERR! /  700W")
    for text in (sick, "".join(f"# {line}" for line in sick.splitlines(keepends=True))):
        named = findings(text)["GPU003"]
        assert named.status is Status.WARN
        assert "ERR! for fan, power" in named.verdict.summary
        assert "on the PCI bus" not in named.fix
        assert findings(text)["GPU002"].status is Status.UNKNOWN
        unnamed = findings(text.replace("NVIDIA H200", "ERR!       "))["GPU009"]
        assert "could not be read" in unnamed.verdict.summary
        assert unnamed.status is Status.UNKNOWN


# vllm-project/vllm issues; pytorch/pytorch#148167
def test_collect_env_without_its_line_breaks_is_read() -> None:
    lines = (
        "PyTorch version: 2.6.0+cpu", "Is debug build: False", "CUDA used to build PyTorch: None",
        "ROCM used to build PyTorch: N/A", "OS: Ubuntu 24.10 (x86_64)",
        "Python version: 3.12.9 (64-bit runtime)", "Is CUDA available: False",
        "GPU models and configuration: GPU 0: NVIDIA L4", "GPU 1: NVIDIA L4",
    )  # fmt: skip
    whole, joined = facts("\n".join(lines)), facts("Collecting information... " + " ".join(lines))
    assert whole.gpus == joined.gpus
    assert isinstance(joined.gpus, tuple)
    assert len(joined.gpus) == 2


def test_a_long_line_is_shown_from_its_message_on() -> None:
    line = f'host:1:1 [0] {"/build/rccl" * 20}/init.cc:179 NCCL WARN Missing "iommu=pt" from kernel'
    with pytest.raises(UserError, match=r"known: \.\.\. .*Missing .iommu=pt. from"):
        facts_of_text(f"{line} command line which can lead to system instablity or hang!\n", "")
