"""What a report adds to a remedy: who is slow, what was not requested, the names that it shows.

The texts are our own, in the structure that the tools print. Each fault stands beside what
resembles it and is none.
"""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding, Owner, Status
from doctor.report.report import Report

POWER = """\
GPU 00000000:21:00.0
    Product Name : NVIDIA RTX A6000
    Clocks Event Reasons
        SW Power Cap : {cap}
    GPU Power Readings
        Average Power Draw : 139 W
        Current Power Limit : {limit} W
        Default Power Limit : 300 W
"""
LOG = "=====NVSMI LOG=====\n\nDriver Version : 575.57.08\n"
SLOW = "this box is 30% slower than its twin\n"
NO_GPU = "RuntimeError: No CUDA GPUs are available\n"
SCRIPT = "#SBATCH --partition=gpu\n#SBATCH --mem=64G\n{}srun python train.py\n"
JOB = "   ReqTRES=cpu=12,node=1\n   AllocTRES=cpu=12,node=1{}\n"
ENVIRONMENT = "SLURM_JOB_ID=7\nSLURM_CPUS_ON_NODE=12\n{}"
GROUP = (
    "$ cat /sys/fs/cgroup/cpu.max\n{} 100000\n$ cat cpu.stat\nnr_periods 1000\nnr_throttled {}\n"
)
BRIDGE = (
    "a:1:1 [0] NCCL INFO Bootstrap : Using {}:172.17.0.1<0>\n"
    "a:1:1 [0] NCCL WARN socketPollConnect: connect to 172.17.0.1<4> returned Connection refused\n"
)
ADDRESSES = "lo     UNKNOWN  127.0.0.1/8\nens7   UP       10.3.0.4/24\ndocker0 UP 172.17.0.1/16\n"


def findings(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report"))}


@pytest.mark.parametrize(
    ("text", "cause", "words"),
    [
        (LOG + POWER.format(cap="Active", limit=140) + SLOW, "power-limit-low", "140 W of 300 W"),
        (SCRIPT.format("") + NO_GPU, "job-without-gpus", "batch script"),
        (JOB.format("") + NO_GPU, "job-without-gpus", "cpu=12,node=1: no GPU"),
        (ENVIRONMENT.format("") + NO_GPU, "job-without-gpus", "environment"),
        (GROUP.format(400000, 910), "few-cores", "4 usable CPU cores for 1 GPU"),
        (BRIDGE.format("docker0") + ADDRESSES, "network-interface-wrong", "ens7"),
    ],
)
def test_what_the_report_shows_is_named(text: str, cause: str, words: str) -> None:
    found = findings(text)["DRV003"]
    assert found.is_problem
    assert cause in found.verdict.causes
    assert words in found.verdict.summary


@pytest.mark.parametrize(
    "text",
    [
        LOG + POWER.format(cap="Active", limit=140),
        LOG + POWER.format(cap="Active", limit=280) + SLOW,
        LOG + POWER.format(cap="Not Active", limit=140) + SLOW,
        SCRIPT.format(""),
        SCRIPT.format("#SBATCH --gpus-per-node=2\n") + NO_GPU,
        "sbatch --gres=gpu:1 job.sh\n" + SCRIPT.format("") + NO_GPU,
        JOB.format(",gres/gpu=1") + NO_GPU,
        ENVIRONMENT.format("SLURM_JOB_GPUS=0\n") + NO_GPU,
        GROUP.format(400000, 90),
        GROUP.format("max", 0),
        ADDRESSES,
        "a:1:1 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n" + ADDRESSES,
    ],
)
def test_what_resembles_it_is_no_fault(text: str) -> None:
    facts = facts_of_text(text + "\n$ python -c 'import torch; print(torch.__version__)'\n2.7.1\n",
                          "report")  # fmt: skip
    assert "DRV003" not in {each.check.code for each in findings_of(facts) if each.is_problem}


def test_files_of_a_cgroup_are_a_report() -> None:
    found = findings(GROUP.format(3200000, 3))
    assert found["DRV003"].status is Status.PASS


def test_the_interface_of_the_report_leads_the_remedy() -> None:
    fix = findings(BRIDGE.format("docker0") + ADDRESSES)["DRV003"].fix
    assert fix.startswith("export NCCL_SOCKET_IFNAME=ens7")


NOT_READY = (
    "| NVIDIA-SMI 570.172.08   Driver Version: 570.172.08   CUDA Version: 12.8 |\n"
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet "
    "initialized\n"
)
OTHER = (
    "nv-fabricmanager: fabric manager NVIDIA GPU driver interface version 570.133.20 don't match "
    "with driver version 570.172.08.\n"
)


def test_a_fabric_manager_of_another_version_returns_no_machine() -> None:
    assert findings(NOT_READY)["DRV001"].owner is Owner.MACHINE
    found = findings(NOT_READY + OTHER)
    assert found["DRV001"].status is Status.FAIL
    assert found["DRV001"].owner is Owner.ENVIRONMENT
    assert found["DRV001"].fix.startswith("Install nvidia-fabricmanager")


DEFECT = (
    "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    "    Remapped Rows\n        Pending : No\n        Remapping Failure Occurred : Yes\n"
)


def test_the_defect_of_a_gpu_leads_before_the_error_that_it_raised() -> None:
    facts = facts_of_text(DEFECT, "report")
    report = Report(facts=facts, findings=findings_of(facts))
    assert report.next_action.startswith("GPU003: GPU 0")
    assert report.findings[0].check.code != "GPU003"
    (defect,) = (each for each in report.findings if each.check.code == "GPU003")
    assert defect.fix.startswith("The GPU must be replaced")


TRAY = (
    "NVL72, all_reduce_perf over 8 GPUs fails with `CUDA error: 'system not yet initialized'`-like "
    "errors that come from the second host only.\n\n"
)
FABRIC = """GPU 00000008:01:00.0
    Product Name                          : NVIDIA GB200
    GPU UUID                              : GPU-00000000-0000-4000-8000-000000000000
    Fabric
        State                             : In Progress
        Status                            : N/A
"""


def test_a_sentence_beside_a_report_returns_no_machine() -> None:
    facts = facts_of_text(TRAY + FABRIC, "report")
    found = {each.check.code: each.verdict.status for each in findings_of(facts)}
    assert found["GPU003"] is Status.WARN
    assert found["DRV001"] is not Status.FAIL


REMAPPED = """    Product Name                          : NVIDIA H200
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 1
        Pending                           : {}
        Remapping Failure Occurred        : No

May 10 02:11:08 n kernel: [918221.4] NVRM: Xid (PCI:0000:ab:00): 63, pid='<unknown>', Row Remapper
"""


@pytest.mark.parametrize(("pending", "status"), [("No", Status.PASS), ("Yes", Status.WARN)])
def test_a_row_that_was_replaced_since_is_no_fault(pending: str, status: Status) -> None:
    facts = facts_of_text("GPU 00000000:AB:00.0\n" + REMAPPED.format(pending), "report")
    found = {each.check.code: each.verdict.status for each in findings_of(facts)}
    assert found["GPU003"] is status


def test_on_rocm_a_kernel_without_code_gets_the_remedy_of_rocm() -> None:
    found = findings(
        "training fails with `HIP error: invalid device function` at the first convolution\n\n"
        "$ rocminfo | grep -E 'Name:'\n  Name:                    gfx1100\n"
        "  Name:                    gfx1036\n"
        "$ python -c 'import torch; print(torch.__version__)'\n2.7.1+rocm6.3\n"
    )
    problems = [each for each in found.values() if each.is_problem]
    assert problems
    assert not any("cu128" in each.fix for each in problems)


AMD = (
    "torch.cuda.get_arch_list()\n['gfx1030', '{}']\n"
    "RuntimeError: HIP error: invalid device function\n"
    "$ python -c 'import torch; print(torch.__version__)'\n2.8.0+rocm6.4\n"
    "  Name:                    gfx1103\n  Uuid:                    GPU-XX\n"
    "  Marketing Name:          AMD Radeon 780M Graphics\n  Vendor Name:             AMD\n"
)


def test_the_architecture_that_rocminfo_prints_is_in_the_remedy() -> None:
    found = findings(AMD.format("gfx1100"))["TOR003"]
    assert "AMD Radeon 780M Graphics" in found.verdict.summary
    assert "built without code for gfx1103" in found.fix
    assert found.verdict.commands == ("export HSA_OVERRIDE_GFX_VERSION=11.0.0",)
