"""A fault as a report shows it, and beside it what has the same words and is none."""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding, Status
from doctor.pasted import read

SMI = "GPU 0: NVIDIA H200 (UUID: GPU-33aa0000-1111-2222-3333-444455556668)\n"
MIG = "# nvidia-smi -i 0 -mig 1\nWarning: MIG mode is in pending enable state for GPU {}\n" + SMI
ROWS = (
    "gpu_bus_id, gpu_uuid, remapped_rows.pending, remapped_rows.failure\n"
    "00000000:47:00.0, GPU-3c5bc6e4-1e8e-3c55-2e4b-82e7d1c22c03, 0, {}\n"
)
IMEX = "Node #0   * 10.3.0.11 *  - READY   - Version: 580.95\nNode #1   - 10.3.0.12    - {} -\n"
AMD = (
    "HSA_OVERRIDE_GFX_VERSION={}\n  Name:                    {}\n"
    "  Marketing Name:          Radeon RX 7900 XTX\n"
    "$ python -c 'import torch; print(torch.__version__)'\n2.8.0+rocm6.4\n"
    "Queue 0x7f aborting with error : HSA_STATUS_ERROR_INVALID_ISA: invalid. code: 0x100f\n"
)
LINK = (
    "name, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, utilization.gpu [%]\n"
    "NVIDIA GeForce RTX 4070, 1, 4, 16, {} %\n\t\tLnkSta:\tSpeed {}, Width x16\n"
)
BANKS = (
    "    Remapped Rows\n        Remapping Failure Occurred : No\n"
    "        Bank Remap Availability Histogram\n            Max : 637 bank(s)\n"
    "            High : 1 bank(s)\n            Partial : 0 bank(s)\n            Low : 0 bank(s)\n"
    "            None : {} bank(s)\n"
)
UNREAD = (
    "| NVIDIA-SMI 575.64.03   Driver Version: 575.64.03   CUDA Version: 12.9 |\n"
    "|   0  NVIDIA GeForce RTX 5090   Off |   00000000:01:00.0 Off |      N/A |\n"
    "| ERR!   {0}   P5        N/A /  575W |       {0} |    {0}      Default |\n"
)
KFD = (
    "$ python -c 'import torch; print(torch.__version__, torch.cuda.is_available())'\n"
    "2.9.0+rocm6.4 False\nls: cannot access '/dev/kfd': {}\n"
)
LISTED = (
    "- `transformers` version: 4.56.2\n- Platform: Linux-6.8.0-1013-aarch64-with-glibc2.39\n"
    "- PyTorch version (accelerator?): 2.5.1 (NA)\n"
)
PROMPT = "$ python -c 'import torch; print(torch.__version__, torch.cuda.is_available())'\n{} {}\n"
NAME = (
    "$ python -c 'import torch; print(torch.cuda.is_available(), torch.cuda.get_device_name())'\n"
)
LOGIN = (
    "PyTorch version: 2.9.1+cu128\nIs CUDA available: False\n"
    "GPU models and configuration: No CUDA\n"
)
FABRIC = "Unit nvidia-fabricmanager.service could not be found.\n" + SMI
PTXAS = (
    "torch._inductor.exc.InductorError: PTXASError: PTXAS error: Internal\n"
    "ptxas fatal   : Value 'sm_{}' is not defined for option 'gpu-name'\n"
)
XID = "[ 9001.1] NVRM: Xid (PCI:0000:41:00): {}, pid=555, name=python, Ch 00000008\n"
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.195.03  Release Build\n"


def found(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report"))}


@pytest.mark.parametrize(
    ("text", "code", "fix"),
    [
        (MIG.format("0:In use by another client"), "DRV003", "--gpu-reset"),
        (ROWS.format(1), "GPU003", "must be replaced"),
        (IMEX.format("UNAVAILABLE") + SMI, "DRV003", "nvidia-imex on every node"),
        (AMD.format("10.3.0", "gfx1030"), "TOR003", "Unset HSA_OVERRIDE_GFX_VERSION"),
        (LINK.format(100, "2.5GT/s (downgraded)"), "DRV003", "Reseat"),
        (LISTED + SMI, "GPU001", "for the CPU only"),
        (PROMPT.format("2.8.0+cpu", False) + SMI, "TOR002", "Install torch"),
        (FABRIC, "DRV003", "Install nvidia-fabricmanager"),
        (PTXAS.format("121a") + SMI, "DRV003", "Give Triton the ptxas"),
        (PTXAS.format("120") + SMI, "DRV003", "newer Triton"),
        ("".join(f"    > {line}\n" for line in ROWS.format(1).splitlines()), "GPU003", "replaced"),
        (BANKS.format(2), "GPU003", "works on"),
        (UNREAD.format("ERR!"), "GPU003", "does not answer"),
        (KFD.format("No such file or directory"), "GPU001", "--device=/dev/kfd"),
        (KFD.format("Permission denied"), "GPU001", "render"),
        ("    shm      64M   64M     0 100% /dev/shm\n" + SMI, "MEM003", "--shm-size"),
    ],
)
def test_the_fault_has_its_remedy(text: str, code: str, fix: str) -> None:
    finding = found(text)[code]
    assert finding.is_problem
    assert fix in finding.fix


@pytest.mark.parametrize(
    "text",
    [
        "Solved: after the reset it is on. " + MIG.format("0").splitlines()[1] + "\n" + SMI,
        ROWS.format(0),
        IMEX.format("READY") + SMI,
        LINK.format(1, "2.5GT/s (downgraded)"),
        LINK.format(100, "16GT/s"),
        BANKS.format(0),
        UNREAD.format("N/A"),
        LISTED,
        LISTED + NAME + "True NVIDIA H200\n" + SMI,
        LOGIN + NAME + "True NVIDIA H200\n",
        PROMPT.format("2.8.0+cpu", False) + PROMPT.format("2.8.0+cu128", True) + SMI,
        FABRIC + NAME + "True NVIDIA H200\n",
        XID.format(45),
        LOADED,
    ],
)
def test_its_twin_is_not_red(text: str) -> None:
    assert not [code for code, each in found(text).items() if each.is_problem]


def test_an_override_of_the_own_family_is_not_the_cause() -> None:
    finding = found(AMD.format("11.0.0", "gfx1100"))["TOR003"]
    assert finding.is_problem
    assert "is set" not in finding.verdict.summary


def test_the_xid_of_a_program_is_a_note_and_not_beside_one_of_the_hardware() -> None:
    assert found(XID.format(31))["DRV003"].status is Status.NOTE
    assert not read(XID.format(31) + XID.format(48)).reported


def test_torchvision_follows_torch() -> None:
    text = (
        "PyTorch version: 2.5.1+cu124\nIs debug build: False\nCUDA used to build PyTorch: 12.4\n"
        "Is CUDA available: True\nGPU models and configuration: GPU 0: NVIDIA GeForce RTX 5090\n"
        "Nvidia driver version: 580.95.05\n[pip3] torch==2.5.1+cu124\n"
    )
    (alone,) = found(text)["TOR003"].commands
    (both,) = found(text + "[pip3] torchvision==0.20.1+cu124\n")["TOR003"].commands
    assert "torchvision" not in alone
    assert '"torch==2.15.*" "torchvision==0.30.*"' in both
