"""What tools show beside a complaint: cores, memory, disks, links, others' processes.

The texts are our own, in the structure that the tools print. Each fault stands beside what
resembles it and is none.
"""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding, Owner, Status
from doctor.report.report import Report


def findings(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report"))}


def problems(text: str) -> set[str]:
    return {code for code, each in findings(text).items() if each.is_problem}


def row(index: int, bus: str, readings: str = "30C    P0             60W /  400W") -> str:
    return (
        f"|   {index}  NVIDIA A100-SXM4-80GB          On  |   00000000:{bus}:00.0 Off |       0 |\n"
        f"| N/A   {readings} |       4MiB /  81920MiB |      0%      Default |\n"
        "|                                         |                        |        Disabled |\n"
        "+-----------------------------------------+------------------------+-----------------+\n"
    )


HEAD = "| NVIDIA-SMI 550.127.08   Driver Version: 550.127.08   CUDA Version: 12.4 |\n"
TABLE = HEAD + row(0, "07") + row(1, "47")
FULL = "OSError: [Errno 28] No space left on device: 'a.pt'\n"
DF = "Filesystem      Size  Used Avail Use% Mounted on\n"
ROOT = DF + "/dev/sda1        97G   97G     0 100% /\n/dev/md0         14T  4.3T  9.0T  33% /data\n"
SNAPS = (
    DF + "/dev/loop0       64M   64M     0 100% /snap/core\n/dev/md0         14T  4T  9T  33% /\n"
)
FREE = "               total        used        free      shared  buff/cache   available\n"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total "
    "capacity of 79.14 GiB of which 612.75 MiB is free. Process 118 has {other} GiB memory in use. "
    "Including non-PyTorch memory, this process has {own} GiB memory in use. Of the allocated "
    "memory {own} GiB is allocated by PyTorch, and 12.51 MiB is reserved by PyTorch but "
    "unallocated.\n"
)
PS = "    PID    PPID USER   STARTED STAT CMD\n    118       1 jk     Jul 16 Sl   python -c spawn\n"
PORT = "CA 'mlx5_{n}'\n  Port 1:\n    State: Active\n    Rate: {rate}\n    Link layer: InfiniBand\n"
PORTS = "".join(PORT.format(n=n, rate=400) for n in (0, 2, 3))
KILLED = "Memory cgroup out of memory: Killed process 88 (python) total-vm:1kB\n"
LINK = (
    "index, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
    "pcie.link.width.max, utilization.gpu [%]\n"
)
CLOCKS = (
    "index, name, clocks.current.sm [MHz], clocks.max.sm [MHz], clocks_event_reasons.active, "
    "utilization.gpu [%]\n0, NVIDIA A100-SXM4-80GB, {now} MHz, 1410 MHz, {mask}, {use} %\n"
)
USER_SITE = '$ python -c "import torch; print(torch.__version__, torch.__file__)"\n{} ' + (
    "/home/a/.local/lib/python3.10/site-packages/torch/__init__.py\n$ pip list\n"
    "torch    2.6.0\ntorchvision 0.21.0\n"
)
SPEED = "$ ethtool eno1 | grep Speed\n  Speed: 1000Mb/s\n"
WHICH = "$ which python pip\n{}/bin/python\n/opt/conda/bin/pip\n"
ABSENT = "ModuleNotFoundError: No module named 'flash_attn'\n"
MESH = "GPU0 X NV12 NV12 NV12 0-31 0\nGPU1 NV12 X NV12 NV12 0-31 0\n"
SOCKET = "NCCL INFO NET/IB : No device found.\nNCCL INFO Using network Socket\n"
WAITS = "DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.\n"
SHARED = "Windows 11\nShared GPU memory {}/31.9 GB\n"


@pytest.mark.parametrize(
    ("text", "cause", "words"),
    [
        (TABLE + "$ nproc\n1\n", "few-cores", "1 usable CPU core for 2 GPUs"),
        (TABLE + "pid 6's current affinity list: 3,5-6\n", "few-cores", "3 usable CPU cores"),
        (TABLE + OOM.format(other=69.6, own=8.9) + PS, "gpu-held-by-others", "of jk, left over"),
        (TABLE + FULL + ROOT, "disk-full", "/data has 9.0T free"),
        (TABLE + DF + "tmpfs 252G 228G 24G 91% /dev/shm\n", "shm-filled", "91 % of 252G"),
        (TABLE + "ls: cannot access '/dev/nvidia-caps-imex-channels': No such file or directory\n"
         "NCCL failure 'unhandled cuda error (run with NCCL_DEBUG=INFO for details)'\n",
         "fabric-service-not-ready", "imex-channels"),
        (TABLE + "    License Status                    : Unlicensed (Restricted)\n",
         "vgpu-unlicensed", "Unlicensed"),
        (TABLE + ROOT, "system-disk-full", "/data has 9.0T free"),
        (TABLE + "$ cat /sys/fs/cgroup/cpu.max\n100000 100000\nnr_periods 200\nnr_throttled 190\n",
         "few-cores", "holds it back in 95% of its periods"),
        (TABLE + '"limits": { "cpu": "1500m", "nvidia.com/gpu": "2" }\n', "few-cores", "2 usable"),
        ("No devices were found\nJobId=7 JobName=t\n   AllocTRES=cpu=8,mem=64G,node=1\n",
         "job-without-gpus", "cpu=8,mem=64G,node=1: no GPU"),
        (TABLE + KILLED, "host-memory-killed", "python was killed at the memory limit"),
        (TABLE + FREE + "Mem:  62Gi 61Gi 310Mi 0.2Gi 0.7Gi 420Mi\n", "host-memory-spent", "0.4 of"),
        (PORTS + PORT.format(n=1, rate=100), "infiniband-port-slow", "mlx5_1: 100 Gb/s"),
        (TABLE + "so: Memory access fault by GPU node-2 (Agent handle: 0x5) on address (nil).",
         "hip-memory-fault", "GPU node-2"),
        (TABLE + "two boxes\n" + SPEED + "NCCL INFO NET/Socket : Using [0]eno1:10.0.0.4<0>\n",
         "network-link-slow", "eno1 runs at 1000 Mb/s"),
        (LINK + "0, 4, 4, 16, 16, 97 %\n2, 1, 4, 16, 16, 99 %\n", "pcie-generation-low",
         "GPU 2: PCIe generation 1 of 4"),
        (CLOCKS.format(now=765, mask="0x0000000000000002", use=100), "clocks-set-low", "765 of"),
        (TABLE + USER_SITE.format("1.13.1+cu117"), "torch-of-user-site", "before 2.6.0"),
        (SHARED.format(9.2) + TABLE, "windows-memory-spilled", "9.2 GB"),
        (HEAD + row(0, "07").replace(" On  |", " Off |") + "$ time nvidia-smi\nreal\t0m41.2s\n",
         "driver-starts-slowly", "41 s"),
        (TABLE + "NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
         "nccl-network-not-used", "Direct RDMA"),
        (TABLE + "nfs: server nas01 not responding, still trying\n", "storage-not-answering",
         "nas01"),
        (TABLE + WHICH.format("/usr") + ABSENT, "pip-of-other-python", "/opt/conda/bin"),
        (TABLE + "$ env\nCUDA_LAUNCH_BLOCKING=1\n", "debugging-variable-left", "is set"),
        (TABLE + MESH + "NCCL_P2P_DISABLE=1\n", "fast-links-off", "NVLink joins"),
        (TABLE + SOCKET + "4 nodes, mlx5_0\n", "fast-links-off", "InfiniBand or EFA"),
        (TABLE + SOCKET + "4 nodes, mlx5_0\nNCCL_IB_DISABLE=1\n", "fast-links-off",
         "NCCL_IB_DISABLE"),
        (TABLE + WAITS + "127.0.1.1  node-a\n", "master-address-is-loopback", "node-a"),
        (TABLE + "NVIDIA_DRIVER_CAPABILITIES=utility\n",
         "container-without-gpu-runtime", "utility"),
        (TABLE + "avg-cpu:  %user %nice %system %iowait %steal %idle\n 3.1 0.0 2.2 61.4 0.0 33.3\n",
         "storage-slow", "61 %"),
        (TABLE + "1a | 03/04 | Power Supply #0x52 | Power Supply AC lost | Asserted\n",
         "host-part-failing", "AC lost"),
        (TABLE + "nvidia-imex.service: Failed with result 'exit-code'.\n",
         "fabric-service-not-ready",
         "imex"),
        (TABLE + "NVRM: Xid (PCI:0000:07:00): 109, pid=1, CTX SWITCH TIMEOUT\n",
         "gpu-context-timeout", "109"),
    ],
)  # fmt: skip
def test_what_a_tool_shows_is_named(text: str, cause: str, words: str) -> None:
    found = findings(text)["DRV003"]
    assert found.is_problem
    assert cause in found.verdict.causes
    assert words in found.verdict.summary


@pytest.mark.parametrize(
    "text",
    [
        TABLE + "$ nproc\n32\n",
        TABLE + "Our suggested max number of worker in current system is 8, which is smaller\n",
        TABLE + "$ cat /sys/fs/cgroup/cpu.max\nmax 100000\n",
        TABLE + DF + "tmpfs 252G 28G 224G 12% /dev/shm\n",
        TABLE + "4m Warning FailedScheduling pod/w-0 0/12 nodes are available: 12 Insufficient "
        "nvidia.com/gpu.\n2m Normal Scheduled pod/w-0 Successfully assigned ml/w-0 to gpu-5\n",
        TABLE + "$ cat /sys/fs/cgroup/cpu.max\n3200000 100000\n",
        TABLE + "JobId=7\n   AllocTRES=cpu=8,gres/gpu=2\nNodeName=n1\n   AllocTRES=cpu=8\n",
        TABLE + FREE + "Mem:  503Gi 112Gi 4Gi 1Gi 387Gi 386Gi\n",
        TABLE + "State: Running\n  Reason: Completed\n",
        PORTS,
        PORTS + PORT.format(n=1, rate=200).replace("InfiniBand", "Ethernet") + "mlx5_1 has NFS\n",
        PORTS + PORT.format(n=1, rate=200).replace("InfiniBand", "Ethernet")
        + PORT.format(n=4, rate=200),  # storage has two of its own
        TABLE + SPEED + "NCCL_SOCKET_IFNAME=ib0\n",
        LINK + "0, 4, 4, 16, 16, 0 %\n2, 1, 4, 16, 16, 0 %\n",
        LINK + "0, 1, 4, 16, 16, 99 %\n1, 1, 4, 16, 16, 99 %\n",  # a virtual machine's placeholder
        TABLE + "nfs: server nas01 not responding, still trying\nnfs: server nas01 OK\n",
        TABLE + "Out of memory: Killed process 88 (mysqld) total-vm:1kB\n",
        TABLE + SOCKET + "mlx5_0 on one node\n",
        TABLE + "two boxes\n" + SPEED + "NCCL_SOCKET_IFNAME=eno1\nNET/IB : Using [0]mlx5_0:1/IB\n",
        PORTS + PORT.format(n=1, rate=200),
        CLOCKS.format(now=1095, mask="0x0000000000000004", use=100),
        CLOCKS.format(now=210, mask="0x0000000000000001", use=0),
        TABLE + USER_SITE.format("2.6.0+cu124"),
        SHARED.format(0.2) + TABLE,
        TABLE + "$ time nvidia-smi\nreal\t0m41.2s\n",  # persistence mode is on
        TABLE + "NCCL INFO GPU Direct RDMA Disabled for GPU 3 / HCA 1 (distance 9 > 5)\n",
        TABLE + WHICH.format("/opt/conda"),
        TABLE + WHICH.format("/usr"),  # nothing is missing
        TABLE + "$ CUDA_LAUNCH_BLOCKING=1 python train.py\nCUDA_LAUNCH_BLOCKING=0\n",
        TABLE + "NCCL_P2P_DISABLE=1\n",  # boards without NVLink
        TABLE + SOCKET,  # one node without such adapters
        TABLE + WAITS + "127.0.0.1  localhost\n",
        TABLE + "127.0.1.1  node-a\n",
        TABLE + "avg-cpu:  %user %nice %system %iowait %steal %idle\n 9.1 0.0 2.2 1.4 0.0 87.3\n",
        TABLE + "NVIDIA_DRIVER_CAPABILITIES=compute,utility\n",
    ],
)  # fmt: skip
def test_what_resembles_it_is_no_fault(text: str) -> None:
    found = findings(text)["DRV003"]
    assert not found.is_problem or set(found.verdict.causes) <= {"rendezvous-timeout"}


def test_a_file_system_that_is_always_full_is_not_the_reason() -> None:
    assert "/snap" not in findings(TABLE + FULL + SNAPS)["DRV003"].verdict.summary


def test_an_error_of_the_job_alone_is_a_note_and_the_headline() -> None:
    text = TABLE + OOM.format(other=0.4, own=77.9)
    facts = facts_of_text(text, "report")
    found = findings(text)["DRV003"]
    assert (found.status, found.owner) == (Status.NOTE, Owner.JOB)
    assert Report(facts, findings_of(facts), "fail").verdict_line.startswith(
        "UNKNOWN with a note: cuda-oom (DRV003)"
    )


def test_records_of_one_gpu_join_by_address_and_number() -> None:
    """A list with UUIDs, a filtered log of one GPU, and a table."""
    log = "$ nvidia-smi -i 1 -q | grep -A2 Remapped\n    Remapped Rows\n        Pending : Yes\n"
    found = findings(TABLE + log)["GPU003"]
    assert found.status is Status.WARN
    assert "GPU 1 (NVIDIA A100-SXM4-80GB)" in found.verdict.summary


def test_a_lost_gpu_has_the_number_of_its_message_and_explains_the_program() -> None:
    lost = "Unable to determine the device handle for GPU6: 0000:AE:00.0: Unknown Error\n"
    failed = "torch.AcceleratorError: CUDA error: unspecified launch failure\n"
    off = "NVRM: Xid (PCI:0000:ae:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert findings(lost + failed)["DRV003"].status is Status.NOTE
    found = findings(lost + failed + off)
    assert found["DRV003"].status is not Status.FAIL
    assert found["GPU001"].verdict.summary.startswith("GPU 6: ")


def test_a_message_without_an_address_or_behind_a_prefix_is_of_a_lost_gpu() -> None:
    no_handle = "Unable to determine the device handle for GPU"
    for line, place in (
        (f"    {no_handle}2: Unknown Error\n", "GPU 2: "),
        (f"[node3 12:01] {no_handle}2: Unknown Error\n", "GPU 2: "),
        (f"- `nvidia-smi` reports: `{no_handle}1: 0000:07:00.0: Unknown Error`.\n", "GPU 1: "),
        (f"{no_handle} 0000:07:00.0: Unknown Error\n", "GPU at 0000:07:00.0: "),
    ):
        found = findings(line)
        assert found["GPU003"].status is Status.FAIL
        assert found["GPU001"].verdict.summary.startswith(place)
    for quoted in ("Last week it printed: ", "you may see ", "What if it says: "):
        assert "GPU 2" not in str(findings(f"{TABLE}{quoted}{no_handle}2: Unknown Error\n"))
    assert "GPU 0" in findings(f"{no_handle}0: GPU is lost.\n")["GPU003"].verdict.summary
    answered = findings(f"{TABLE}{no_handle}1: Unknown Error\n")["GPU003"].verdict.summary
    assert "GPU 1 (" in answered
    assert "GPU 2" not in answered


def test_an_xid_beside_a_section_without_a_number_is_of_an_address() -> None:
    part = "Driver Version : 580.105.08\n    Remapped Rows\n        Pending : No\n"
    off = "NVRM: Xid (PCI:0000:46:00): 79, pid=1, GPU has fallen off the bus.\n"
    summary = findings(part + off)["GPU003"].verdict.summary
    assert "GPU at 0000:46:00.0" in summary
    assert "GPU 0" not in summary
    assert "GPU-0" not in summary


def test_a_gpu_that_a_list_without_addresses_lacks_is_lost() -> None:
    text = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-8d0c2f4b-0d2c-7c1b-6a11-1f0e9d8c7b60)\n"
        "Unable to determine the device handle for gpu 0000:BB:00.0: Unknown Error\n"
        "NVRM: Xid (PCI:0000:bb:00): 79, pid=1, GPU has fallen off the bus.\n"
        "NVRM: Xid (PCI:0000:19:00): 45, pid=2, Ch 00000008\n"
    )
    found = findings(text)
    assert found["GPU001"].owner is Owner.MACHINE
    assert found["GPU003"].status is Status.FAIL
    assert "0000:bb:00.0" in found["GPU003"].verdict.summary


@pytest.mark.parametrize(
    ("xid", "words"),
    [("62", "the GPU's controller halted"), ("119", "system processor does not respond")],
)
def test_readings_that_fail_are_what_an_xid_leads_to(xid: str, words: str) -> None:
    broken = "ERR!   ERR!          ERR! /  400W"
    text = HEAD + row(0, "07") + row(1, "47", broken)
    assert "ERR!" in findings(text)["GPU001"].verdict.summary
    named = findings(text + f"NVRM: Xid (PCI:0000:47:00): {xid}, pid=1\n")
    assert "GPU001" not in problems(text + f"NVRM: Xid (PCI:0000:47:00): {xid}, pid=1\n")
    assert words in named["GPU003"].verdict.summary


def test_filtered_rows_of_a_log_are_read() -> None:
    """`grep` leaves out the headings, and the number of the GPU stands in the command."""
    slow = (
        "$ nvidia-smi -q -i 1 -d PERFORMANCE | grep -i slowdown\n"
        "        HW Slowdown                       : Active\n"
        "            HW Thermal Slowdown           : {}\n"
        "            HW Power Brake Slowdown       : {}\n"
    )
    hot = findings(TABLE + slow.format("Active", "Not Active"))["GPU004"]
    assert "GPU 1" in hot.verdict.summary
    assert "fans" in hot.fix
    braked = findings(TABLE + slow.format("Not Active", "Active"))["GPU004"]
    assert "power supply" in braked.fix
    limits = "        Current Power Limit : {} W\n        Default Power Limit : 400.00 W\n"
    each = limits.format("400.00") + limits.format("150.00")
    lowered = findings(TABLE + "$ nvidia-smi -q -d POWER | grep Limit\n" + each)["GPU009"]
    assert lowered.status is Status.WARN
    assert "GPU 1 (NVIDIA A100-SXM4-80GB): power limit 150 W" in lowered.verdict.summary


def test_lines_that_a_terminal_broke_are_one() -> None:
    text = (
        "Sep  9 23:14:07 vm kernel: NVRM: Xid (PCI:0000:00:06): 63, pid=1, name=python3, Row Rema\n"
        "pper: New row\n"
        "Sep  9 23:14:07 vm kernel: NVRM: Xid (PCI:0000:00:06): 154, GPU recovery action change\n"
        "d from 0x0 (None) to 0x4 (Drain and Reset)\n"
    ).replace("Row Rema\npper", "Row Re\nmapper")
    named = findings(text)["GPU003"]
    assert "drain, then reset the GPU" in named.verdict.summary


def test_nvmls_error_comes_before_that_of_cuda() -> None:
    text = (
        "Failed to initialize NVML: Driver/library version mismatch\n"
        "Error 803: system has unsupported display driver / cuda driver combination\n"
    )
    found = findings(text)["DRV001"]
    assert "reboot" in found.fix
    assert "803" in found.verdict.summary


def test_a_gpu_that_requires_a_reset_is_not_lost() -> None:
    text = "Unable to determine the device handle for GPU 0000:21:00.0: GPU requires reset\n"
    assert problems(text) == {"GPU003"}
    assert "reset the GPU" in findings(text)["GPU003"].fix
    log = "GPU Reset Status\n    Reset Required : {}\n"
    assert "reset the GPU" in findings(TABLE + log.format("Yes"))["GPU003"].verdict.summary
    assert problems(TABLE + log.format("No")) == set()


HEALTH = (
    "| Health Monitor Report                              |\n"
    "| -> 3                      | {0}                    |\n"
    "|    -> Errors              |                        |\n"
    "|       -> Memory system    | {0}                    |\n"
)
DIAG = (
    "| Diagnostic                | Result                 |\n"
    "| PCIe                      | Fail                   |\n"
    "| Warning                   | GPU 5 Bandwidth of GPU |\n"
    "| GPU Memory                | Pass - GPUs: 0, 1      |\n"
    "|                           | Fail - GPU: 2          |\n"
)


def test_dcgm_names_the_gpu_that_failed() -> None:
    assert "GPU 3" in findings(HEALTH.format("Failure"))["GPU003"].verdict.summary
    assert problems(HEALTH.format("Healthy")) == set()
    summary = findings(DIAG)["GPU003"].verdict.summary
    assert "PCIe failed" in summary
    assert "GPU 5" in summary
    assert "gpu memory failed" in summary


@pytest.mark.parametrize(("kind", "remedy"), [("ECC", "remaps the row"), ("NVLink", "nvlink -e")])
def test_an_error_of_hardware_is_of_the_only_gpu(kind: str, remedy: str) -> None:
    error = f"RuntimeError: CUDA error: uncorrectable {kind} error"
    found = findings(f"{HEAD}{row(0, '07')}{error}\n")["GPU003"]
    assert found.status is Status.FAIL
    assert found.fix.startswith("Rented: return the machine")
    assert remedy in found.fix
    assert "TOR003" not in problems(f"{HEAD}{row(0, '07')}{error}\n")


def test_power_alone_that_could_not_be_read_is_no_fault() -> None:
    assert problems(HEAD + row(0, "07", "30C    P0            ERR! /  400W")) == set()
    assert "GPU001" in problems(HEAD + row(0, "07", "30C   ERR!          ERR! /  400W"))


def test_an_uncorrected_error_says_reset_and_one_of_a_link_says_all() -> None:
    """In the words of torch and of NCCL."""
    ecc = findings(TABLE + "RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    link = findings(TABLE + "NCCL WARN Cuda failure 'uncorrectable NVLink error detected'\n")
    assert "replaces the row" in ecc["GPU001"].fix
    assert "all GPUs of the machine together" in link["GPU001"].fix
    assert not link["DRV003"].is_problem


CUDNN = "nvidia-cudnn-cu12==9.6.0.74\ntorch==2.3.1\n"


def test_cudnn_of_another_major_version_is_named() -> None:
    missing = "ImportError: libcudnn.so.8: cannot open shared object file: No such file\n"
    found = findings("import torch\n" + missing + CUDNN)["TOR001"]
    assert "linked to cuDNN 8" in found.verdict.summary
    assert "8.9.2.26" in " ".join(found.commands)
    for healthy in ("2.5.1", "2.3.1+cu118", "2.3.1"):  # the last may be conda's
        assert problems(CUDNN.replace("2.3.1", healthy) + TABLE) == set()


AMD = "- `/dev/dxg` exists\n- `AMD Radeon RX 7900 XTX`\ntorch.__version__ == 2.8.0+cu128\n"
NO_MODULE = "rocm-smi says: Driver not initialized (amdgpu not found in modules)\n"


def test_a_cuda_build_beside_an_amd_gpu_in_wsl() -> None:
    found = findings(f"{AMD}{NO_MODULE}torch.cuda.is_available() == False\n")
    assert found["TOR002"].status is Status.FAIL
    assert "ROCm" in found["TOR002"].verdict.fix
    assert found["DRV003"].status is not Status.FAIL
    assert "purge" not in found["GPU001"].verdict.fix
    beside = findings(f"{AMD}- NVIDIA RTX 4090\ntorch.cuda.is_available() == True\n")
    assert beside["TOR002"].status is not Status.FAIL


def test_a_lost_gpu_is_not_to_be_reset() -> None:
    lost = "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error\n"
    log = (
        "NVRM: Xid (PCI:0000:5f:00): 79, pid=1, GPU has fallen off the bus.\n"
        "NVRM: Xid (PCI:0000:5f:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 "
        "(GPU Reset Required)\n"
    )
    found = findings(lost + log)["GPU003"].verdict
    assert "requests: reset" in found.summary
    assert "do what the driver requests" not in found.fix


def test_a_list_counts_its_gpus() -> None:
    driver = "NVIDIA driver: 595.71.05\nCompute capability: 9.0\n"
    eight = findings(f"{driver}8 x NVIDIA H200\n")["GPU001"].verdict.summary
    assert "NVML 8" in eight
    assert "NVML 1 " in findings(f"{driver}NVIDIA H200\n")["GPU001"].verdict.summary
