"""What real reports showed: a fault, and beside it healthy ones with the same words."""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding, Status

SMI = "GPU 0: NVIDIA H200 (UUID: GPU-33aa0000-1111-2222-3333-444455556668)\n"
PROMPT = "$ python -c 'import torch; print(torch.__version__, torch.cuda.is_available())'\n{} {}\n"
CPU_BUILD = "AssertionError: Torch not compiled with CUDA enabled\n"
SHORT_NAME = "CUDA error: no kernel image is available for execution on the device\n{}\n"
LISTED_XIDS = "Mar 10 21:38:13  Xid 79 (PCI:0000:46:00): GPU has fallen off the bus\n"


def findings(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report.txt"))}


def codes(text: str) -> set[str]:
    """The checks that fail."""
    return {code for code, each in findings(text).items() if each.status is Status.FAIL}


@pytest.mark.parametrize(
    ("text", "failing"),
    [
        (f"NVIDIA-SMI 475.14  Driver Version: 475.14  CUDA Version: 11.4\n{CPU_BUILD}", {"TOR002"}),
        (f"我的显卡是2080ti\n{CPU_BUILD}", {"TOR002"}),
        (f"AMD Ryzen 9 5950X, GPU 3060\n{CPU_BUILD}", {"TOR002"}),
        (f"My GPU is an AMD RX 7900 XTX, the README asks for a GPU 3060\n{CPU_BUILD}", set()),
        (CPU_BUILD, set()),
        (f"I use the CPU only.\n{CPU_BUILD}", set()),
        (f"- Platform: macOS-15.1-arm64-arm-64bit\n- PyTorch version: 2.9.0\n{CPU_BUILD}", set()),
    ],
)
def test_a_build_for_the_cpu_is_a_fault_where_a_gpu_or_a_driver_is_known(
    text: str, failing: set[str]
) -> None:
    assert codes(text) == failing
    told = (Status.FAIL, Status.NOTE)
    assert "macOS" in text or any(
        "CUDA" in each.fix for each in findings(text).values() if each.status in told
    )


@pytest.mark.parametrize(
    ("line", "capability"),
    [
        ("GPU3090，", "8.6"),
        ("GTX 3090", "8.6"),
        ("GPU 4090", "8.9"),
        ("GPU 4090 MiB of memory", None),
        ("step 3090 of 5000", None),
        ("GTX 3090 here, GPU 4090 there", None),
    ],
)
def test_a_gpu_is_known_by_its_number_beside_a_kernel_without_code(
    line: str, capability: str | None
) -> None:
    fix = findings(SHORT_NAME.format(line))["TOR003"].fix
    assert (capability in fix) if capability else ("has code for" not in fix)


@pytest.mark.parametrize(
    ("text", "failing"),
    [
        (LISTED_XIDS, {"GPU001", "GPU003"}),
        (LISTED_XIDS.replace("Xid 79", "Xid 31").replace("GPU has fallen off the bus", "x"), set()),
        ("Xid 79 (PCI:0000:46:00): GPU has fallen off the bus\nRTX 4090, torch 2.5.1\n", set()),
        (f"{SMI}We alert on Xid 79 (PCI:0000:46:00) and drain the node.\n", set()),
        (f"{SMI}| 79 | GPU has fallen off the bus | RESTART_BM |\n", set()),
    ],
)
def test_a_list_of_xids_without_the_driver_s_name_is_read(text: str, failing: set[str]) -> None:
    assert codes(text) == failing


@pytest.mark.parametrize(
    ("version", "gpu", "status"),
    [
        ("2.11.0+cu128", "Tesla T4", Status.PASS),
        ("2.11.0+cu126", "Tesla V100-SXM2-16GB", Status.PASS),
        ("2.11.0+cu128", "NVIDIA GeForce RTX 5090", Status.PASS),
        ("2.11.0+cu128", "Tesla V100-SXM2-16GB", Status.FAIL),
    ],
)
def test_wheels_of_2_11_have_the_code_that_users_printed(
    version: str, gpu: str, status: Status
) -> None:
    text = (
        f"PyTorch version: {version}\nIs CUDA available: True\n"
        f"GPU models and configuration: GPU 0: {gpu}\nNvidia driver version: 580.82.07\n"
    )
    assert findings(text)["TOR003"].status is status


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (f"{SMI}RuntimeError: CUDA unknown error\n", Status.FAIL),
        (f"{SMI}{PROMPT.format('2.9.1+cu128', 'True')}RuntimeError: CUDA unknown error\n", None),
        (f"{SMI}The list of codes has a CUDA unknown error among them.\n", None),
        (SMI, None),
    ],
)
def test_an_unknown_error_of_cuda_is_known_without_its_second_half(
    text: str, status: Status | None
) -> None:
    found = findings(text)["GPU001"]
    assert (found.status is Status.FAIL) is (status is Status.FAIL)
    assert status is None or "nvidia_uvm" in found.fix


@pytest.mark.parametrize(
    "log",
    [
        "CUDA error: an illegal memory access was encountered\n",
        "RuntimeError: CUDA error: unspecified launch failure\n",
        "[FATAL] Check failed: status == cudaSuccess an illegal memory access was encountered\n",
    ],
)
def test_an_illegal_access_of_a_program_is_a_note(log: str) -> None:
    assert findings(SMI + log)["DRV003"].status is Status.NOTE
    broken = "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert findings(SMI + log + broken)["GPU003"].status is Status.FAIL


@pytest.mark.parametrize(("number", "words"), [(11040, "for CUDA 11."), (10010, "10.1 or older.")])
def test_a_driver_that_is_too_old_names_the_builds_that_it_runs(number: int, words: str) -> None:
    old = f"RuntimeError: The NVIDIA driver on your system is too old (found version {number}).\n"
    assert codes(old) == {"DRV002"}
    assert words in findings(old)["DRV002"].fix
