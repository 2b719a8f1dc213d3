"""Facts that are true and not the matter, and faults that another fact hides.

The texts are our own, in the structure that the tools print. Each fault stands beside what
resembles it and is none.
"""

from __future__ import annotations

import pytest

from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.facts.interpreter import Torch
from doctor.judge.check import Finding, Status

ENV = "PyTorch version: {}\nCUDA used to build PyTorch: {}\nIs CUDA available: False\n"
DOCKER = "$ docker run -it --shm-size=8g serve python run.py\n"


def findings(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report"))}


def causes(text: str) -> tuple[str, ...]:
    found = findings(text)["DRV003"]
    return found.verdict.causes if found.is_problem else ()


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        (ENV.format("2.6.0+cu124", "12.4") + DOCKER, True),
        (ENV.format("2.6.0+cpu", "None") + DOCKER, False),
        (ENV.format("2.6.0", "None") + DOCKER, False),
        ("torch==2.6.0+cpu\ntorchvision==0.21.0+cpu\nCUDA available: False\n" + DOCKER, False),
    ],
)
def test_a_build_for_the_cpu_misses_no_gpus_in_its_container(text: str, is_named: bool) -> None:
    assert ("container-started-without-gpus" in causes(text)) == is_named


TOOLKIT = (
    "RuntimeError:\n The detected CUDA version (12.4) mismatches the version that was used to "
    "compile\n PyTorch (11.8). Please make sure to use the same CUDA versions.\n"
)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Error: install fails, cuda version mismatch\n", None),
        ("Error: install fails, cuda version mismatch\n" + TOOLKIT, "cuda-toolkit-mismatch"),
        ("WARNING: CUDA VERSION MISMATCH: Requested CUDA version 12.1\n", "bitsandbytes-setup"),
        ("bitsandbytes: error, CUDA version mismatch\n", "bitsandbytes-setup"),
        ("bitsandbytes: error, CUDA version mismatch\n" + TOOLKIT, "cuda-toolkit-mismatch"),
    ],
)
def test_a_mismatch_of_cuda_is_bitsandbytes_only_where_it_says_so(
    text: str, first: str | None
) -> None:
    found = causes(ENV.format("2.6.0+cu118", "11.8") + text)
    assert (found[0] if found else None) == first


SEEN = (
    "PyTorch version: {}\nCUDA used to build PyTorch: {}\nIs CUDA available: True\n"
    "GPU models and configuration: GPU 0: {}\nNvidia driver version: 575.57.08\n"
)
NO_CODE = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
IN_OPERATOR = (
    '  File "/v/lib/python3.12/site-packages/fastattn/interface.py", line 90, in run\n'
    "    return torch.ops.{}.forward(q, k)\n"
    '  File "/v/lib/python3.12/site-packages/torch/_ops.py", line 1123, in __call__\n'
    "    return self._op(*args, **(kwargs or {{}}))\n" + NO_CODE
)
IN_TORCH = (
    "    torch.ops._fastattn_C.prepare(q)\n"
    '  File "/v/lib/python3.12/site-packages/torch/nn/functional.py", line 9, in linear\n' + NO_CODE
)
WARNED = (
    "UserWarning: NVIDIA L4 with CUDA capability sm_89 is not compatible with the current PyTorch "
    "installation.\n"
)
OLD, NEW = "NVIDIA GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 5080"
NIGHTLY = "2.8.0.dev20250601+cu{}"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (SEEN.format("2.4.0+cu121", "12.1", OLD) + NO_CODE, "vLLM's own kernels"),
        (SEEN.format(NIGHTLY.format(128), "12.8", NEW) + NO_CODE, "vLLM's own kernels"),
        (SEEN.format("2.4.0+cu121", "12.1", OLD) + IN_OPERATOR.format("_fastattn_C"),
         "torch.ops._fastattn_C"),
        (SEEN.format("2.9.0a0+git12ab", "12.8", NEW) + IN_OPERATOR.format("_fastattn_C"),
         "torch.ops._fastattn_C"),
        # torch has no code for the GPU, or may have none
        (SEEN.format("2.4.0+cu121", "12.1", NEW) + NO_CODE, None),
        (SEEN.format("2.4.0+cu121", "12.1", NEW) + IN_OPERATOR.format("_fastattn_C"), None),
        (SEEN.format(NIGHTLY.format(126), "12.6", NEW) + NO_CODE, None),
        (SEEN.format("2.9.0a0+git12ab", "12.8", NEW) + NO_CODE, None),
        (SEEN.format("2.9.0a0+git12ab", "12.8", NEW) + IN_OPERATOR.format("aten"), None),
        (SEEN.format("2.9.0a0+git12ab", "12.8", NEW) + IN_TORCH, None),
        (NO_CODE + SEEN.format("2.4.0+cu121", "12.1", "NVIDIA L4") + WARNED, None),
    ],
)  # fmt: skip
def test_an_error_without_code_is_an_extension_s_where_torch_has_it(
    text: str, named: str | None
) -> None:
    found = findings(text)["TOR003"]
    assert found.is_problem
    assert (named or "Install torch") in found.fix
    assert any("pip install" in each for each in found.commands) == (named is None)
    assert ("extension whose kernel failed" in found.fix) == (named is not None)


WORKS = SEEN.format("2.8.0+cu128", "12.8", NEW)
WHEEL = "[pip3] flashkit==0.3.1+cu124torch2.6\n[pip3] torch==2.8.0+cu128\n"
TWO_NCCL = "[pip3] nvidia-nccl-cu11==2.19.3\n[pip3] nvidia-nccl-cu12==2.27.3\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (WHEEL + "flashkit/ops.so: undefined symbol: _ZN3c105ErrorC2E\n", "wheel-for-other-torch"),
        (WHEEL + "RuntimeError: flashkit: wrong number of arguments\n", "wheel-for-other-torch"),
        (WHEEL + "Segmentation fault (core dumped)\n", "wheel-for-other-torch"),
        (WHEEL + "Why are there 10 tokens per second only?\n", None),
        (WHEEL + "ValueError: max_model_len is too large\n", None),
    ],
)
def test_a_wheel_for_another_torch_is_a_fault_where_something_fails(
    text: str, cause: str | None
) -> None:
    assert causes(WORKS + text) == ((cause,) if cause else ())
    found = findings(WORKS + text)["DRV003"]
    assert found.status is (Status.FAIL if cause else Status.NOTE)
    assert "flashkit is a wheel for torch 2.6" in found.verdict.summary


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("", True),
        ("INFO pynccl.py:63] this is using nccl==2.27.3\n", False),
        ("g:7:7 [0] NCCL INFO NCCL version 2.27.3+cuda12.8\n", False),
        ("g:7:7 [0] NCCL INFO NCCL version 2.19.3+cuda11.8\n", True),
        ("using nccl==2.27.3\nImportError: t.so: undefined symbol: ncclCommResume\n", True),
    ],
)
def test_two_packages_of_nccl_are_a_note_where_torch_s_own_is_loaded(
    text: str, is_named: bool
) -> None:
    found = findings(WORKS + TWO_NCCL + text)
    assert found["TOR004"].is_problem == is_named or found["TOR001"].is_problem
    assert ("nccl-packages-listed" in found["DRV003"].verdict.summary) != is_named


STOPPED = "ninja: build stopped: subcommand failed.\n"
ABI = (
    "ImportError: /v/opskit/_C.abi3.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs\n"
)


@pytest.mark.parametrize(
    ("above", "said"),
    [
        ("/b/csrc/cpu/act.cpp:81:40: error: use of undeclared identifier 'omp_get_wtime'\n",
         "act.cpp:81:40: error: use of undeclared identifier 'omp_get_wtime'"),
        ("csrc/scan.cu(33): error: no instance of overloaded function\n/b/x.cpp:1:1: error: late\n",
         "scan.cu(33): error: no instance of overloaded function"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n", "compute_120"),
        ("a.cpp:8:10: fatal error: Python.h: No such file or directory\n", "Python.h"),
        ("/b/csrc/cpu/act.cpp:81:40: warning: unused variable 'error'\n", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_a_failed_build_is_explained_by_its_first_error(above: str, said: str) -> None:
    found = findings(WORKS + above + STOPPED)["DRV003"]
    assert found.is_problem
    if found.verdict.causes == ("extension-not-built",):
        assert ("first error of the compiler:" in found.fix) == bool(said)
        assert said in found.fix
    else:
        assert said in found.verdict.summary


def test_an_import_that_fails_after_a_build_is_the_later_state() -> None:
    tried = "ERROR: Failed to build installable wheels for some projects (opskit)\n"
    assert causes(WORKS + tried) == ("extension-not-built",)
    assert causes(WORKS + tried + ABI) == ("extension-abi-mismatch",)


LIST = (
    "- `Accelerate` version: 1.9.0\n- Platform: {}\n- Python version: 3.11.4\n"
    "- PyTorch version (GPU?): {}\n- PyTorch accelerator: {}\n"
)
WSL = "Linux-{}-x86_64-with-glibc2.31"
LINUX, MAC = "Linux-5.15.0-97-generic-x86_64-with-glibc2.35", "macOS-15.1-arm64-arm-64bit"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (LIST.format(LINUX, "2.3.1+cu121 (False)", ""), "cuda-not-available-listed"),
        (LIST.format(WSL.format("4.4.0-19041-Microsoft"), "1.12.1 (False)", ""), None),
        (LIST.format(WSL.format("4.4.0-19041-Microsoft"), "1.12.1+cu116 (False)", ""), "wsl1-"),
        (
            LIST.format(
                WSL.format("5.15.90.1-microsoft-standard-WSL2"), "1.12.1+cu116 (False)", ""
            ),
            "cuda-not-available-listed",
        ),
        (LIST.format(LINUX, "2.9.0+cpu", "N/A"), "cpu-build-listed"),
        (LIST.format("Windows-11-10.0.26100-SP0", "2.9.0+cpu", "N/A"), "cpu-build-listed"),
        (LIST.format(LINUX, "2.3.1+cu121 (True)", "CUDA"), None),
        (LIST.format(MAC, "2.9.0", "N/A"), None),
        (LIST.format(LINUX, "2.9.0+cpu", "NPU"), None),
        (LIST.format(LINUX, "2.9.0+cpu (False)", "") + "- PyTorch NPU available: True\n", None),
    ],
)
def test_a_list_without_a_gpu_that_torch_uses_is_a_note(text: str, cause: str | None) -> None:
    found = findings(text)
    assert not [each for each in found.values() if each.is_problem]
    told = found["DRV003"]
    assert (told.status is Status.NOTE) == (cause is not None)
    assert cause is None or cause in told.verdict.summary


def test_such_a_list_beside_a_gpu_is_a_fault() -> None:
    gpu = "GPU 0: NVIDIA L4 (UUID: GPU-7b1f0d52-0000-4c10-8000-1f2f3f4f5f60)\n"
    text = LIST.format(LINUX, "2.9.0+cpu", "N/A") + gpu
    assert findings(text)["TOR002"].status is Status.FAIL
    asked = LIST.format(LINUX, "2.9.0+cpu (False)", "") + "- Using GPU in script?: {}\n"
    assert findings(asked.format("yes, RTX 4090"))["TOR002"].status is Status.FAIL
    for answer in ("Yes", "<fill in>", "no", "No, the RTX 4090 is in another machine"):
        assert findings(asked.format(answer))["TOR002"].status is Status.UNKNOWN


XID = "[ 912.4] NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus.\n"
TWO = "".join(
    f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-7b1f0d52-0000-4c10-8000-1f2f3f4f5f6{n})\n"
    for n in range(2)
)


def listed(index: int, bus: str) -> str:
    return (
        f"|   {index}  NVIDIA H100 80GB HBM3   Off |   00000000:{bus}:00.0 Off |     N/A |\n"
        "| N/A   31C    P0    70W / 700W |   12MiB / 81559MiB |     0%      Default |\n"
    )


SMI = "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\n"


@pytest.mark.parametrize("before", ["", TWO])
def test_a_gpu_that_a_log_alone_has_is_named_by_its_address(before: str) -> None:
    found = findings(before + XID)
    for code in ("GPU001", "GPU003"):
        assert found[code].status is Status.FAIL
        assert found[code].verdict.summary.startswith("GPU at 0000:3b:00.0: ")
    shown = " ".join(each.verdict.summary for each in found.values())
    assert "GPU 2" not in shown
    assert "not readable)" not in shown
    assert before or "GPU 0" not in shown


def test_a_gpu_that_a_table_has_at_the_address_keeps_its_number() -> None:
    summary = findings(SMI + listed(0, "1A") + listed(1, "3B") + XID)["GPU003"].verdict.summary
    assert summary.startswith("GPU 1 (NVIDIA H100 80GB HBM3): ")


@pytest.mark.parametrize(
    "line",
    [
        "[Fri Jul 18 01:02:39 2025] NVRM: nvAssertFailedNoLog: Assertion failed: x @ a.c:7",
        "Mar 10 21:38:13 node7 kernel: NVRM: GPU1 knvlinkShutdown: links are shut down",
        "[  912.402] NVRM: iovaspaceDestruct: 4 left-over mappings",
    ],
)
def test_lines_of_the_driver_without_an_xid_are_a_log_and_accuse_nothing(line: str) -> None:
    found = findings(f"{line}\n")
    assert not [each for each in found.values() if each.is_problem]


def test_a_sentence_about_such_lines_is_no_log() -> None:
    with pytest.raises(UserError):
        findings("What does NVRM: mean?\n")


def test_no_number_of_gpus_is_made_up_for_an_error_alone() -> None:
    found = findings("HIP error: Invalid device function\n")
    assert found["TOR003"].status is Status.FAIL
    assert found["GPU001"].status is Status.UNKNOWN


def test_torchs_build_in_the_list_of_mmcv() -> None:
    gpu = "CUDA available: True\nGPU 0: NVIDIA GeForce RTX 3090\nPyTorch: 1.9.0\n"
    toolkit, own = "CUDA_HOME: /usr/local/cuda-11.3\n", "  - CUDA Runtime 11.1\n"
    built = facts_of_text(gpu + toolkit + own, "report").torch
    assert isinstance(built, Torch)
    assert built.cuda == "11.1"
    assert isinstance(facts_of_text(gpu + toolkit, "report").torch, Unknown)


LIGHTNING = (
    "* CUDA:\n\t- GPU:\n\t\t- NVIDIA A100-SXM4-40GB\n\t\t- NVIDIA A100-SXM4-40GB\n"
    "\t- available:         {}\n\t- version:           12.1\n"
    "* Lightning:\n\t- torch:             2.3.1+cu121\n"
)


def test_the_report_of_lightning_names_gpus_and_whether_torch_uses_them() -> None:
    assert "torch sees 2, NVML 2" in findings(LIGHTNING.format(True))["GPU001"].verdict.summary
    assert findings(LIGHTNING.format(False))["GPU001"].status is Status.FAIL


def test_a_version_with_the_suffix_of_a_build_is_torchs() -> None:
    driver = "NVIDIA Driver Version: 581.80\n"
    assert findings(driver + "Version: **2.9.1+cpu**\n")["TOR002"].status is Status.FAIL
    other = findings(driver + "CUDA available: True\ndgl 2.1.0+cpu\n")
    assert not other["TOR002"].is_problem


def test_what_rccl_prints_of_every_kernel_is_no_fault() -> None:
    line = 'NCCL WARN Missing "iommu=pt" from kernel command line which can lead to a hang!\n'
    found = findings(LIST.format(LINUX, "2.9.0+rocm6.4 (True)", "GPU") + line)
    assert not [each for each in found.values() if each.is_problem]
