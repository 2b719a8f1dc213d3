"""Reports of 2022 to 2026 in threads of others; each form is of at least two of them."""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding, Status


def findings(text: str) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_text(text, "report"))}


# vllm-project/vllm#8255, microsoft/WSL#7852, mlcommons/ck#916
WSL = """UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). \
Error 2: {error}
PyTorch version: 2.4.0+cu121
CUDA used to build PyTorch: 12.1
OS: Ubuntu 22.04.4 LTS (x86_64)
Python platform: Linux-5.15.153.1-microsoft-standard-WSL2-x86_64-with-glibc2.35
Is CUDA available: False
GPU models and configuration:
{gpus}
"""


def of_wsl(count: int, error: str = "out of memory") -> Finding:
    names = "\n".join(f"GPU {index}: NVIDIA TITAN RTX" for index in range(count))
    return findings(WSL.format(error=error, gpus=names))["GPU001"]


def test_four_gpus_in_wsl_are_too_many_and_other_failures_keep_their_remedy() -> None:
    assert "until three remain" in of_wsl(4).fix
    assert of_wsl(4).sources == ("ck-916",)
    for other in (of_wsl(3), of_wsl(4, "unknown error")):
        assert other.status is Status.FAIL
        assert "three" not in other.fix


# Comfy-Org/ComfyUI#7126 and 8010, OpenImagingLab/FlashVSR#24, 1038lab/ComfyUI-QwenVL#121
COMFYUI = (
    "## System Information\n- **OS:** nt\n- **PyTorch Version:** {torch}\n## Devices\n\n"
    "- **Name:** cuda:0 NVIDIA GeForce RTX 5070 Ti : cudaMallocAsync\n  - **Type:** cuda\n",
    "Total VRAM 16303 MB, total RAM 32694 MB\npytorch version: {torch}\n"
    "Device: cuda:0 NVIDIA GeForce RTX 5070 Ti : native\n",
)
# facebookresearch/xformers#678 and 939
XFORMERS = (
    "xFormers 0.0.30\nmemory_efficient_attention.ckF:          unavailable\n"
    "pytorch.version:         {torch}\npytorch.cuda:            available\n"
    "gpu.compute_capability:  12.0\ngpu.name:                NVIDIA GeForce RTX 5070 Ti\n"
)


@pytest.mark.parametrize("report", [*COMFYUI, XFORMERS])
def test_reports_of_programs_name_torch_and_its_gpu(report: str) -> None:
    old = findings(report.format(torch="2.6.0+cu126"))
    assert old["TOR003"].status is Status.FAIL
    assert "RTX 5070 Ti), 12.0" in old["TOR003"].verdict.summary
    new = findings(report.format(torch="2.7.1+cu128"))
    assert new["TOR003"].status is Status.PASS
    assert not any(each.is_problem for each in new.values())


# csguoh/MambaIR#37, DeepVAC/TorchPod#43; ModelCloud/GPTQModel#1491 has GPUs for data centers
SMI = """>>> torch.__version__
'2.0.1+cu117'
| NVIDIA-SMI {driver}   Driver Version: {driver}   CUDA Version: {cuda}     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  {name}  Off  | 00000000:04:00.0  On |                  N/A |
| 30%   44C    P8    32W / 350W |    913MiB / 24234MiB |      0%      Default |
"""


def of_driver(driver: str, cuda: str, name: str = "NVIDIA GeForce ...") -> Finding:
    return findings(SMI.format(driver=driver, cuda=cuda, name=name))["DRV002"]


def test_a_cuda_version_that_is_not_the_drivers_own_fails_on_geforce_alone() -> None:
    assert "this driver's own is CUDA 11.4" in of_driver("470.161.03", "11.7").verdict.summary
    assert "libcuda.so.1 the first one" in of_driver("470.161.03", "11.7").fix
    assert "an image and a torch for CUDA 11" in of_driver("470.161.03", "12.1").fix
    for other in (
        of_driver("470.161.03", "11.7", "Tesla V100-SXM2..."),
        of_driver("515.65.01", "11.7"),
        of_driver("565.57.01", "12.7"),  # the table of branches has no row for it
    ):
        assert other.status is not Status.FAIL


# mesosphere/konvoy-image-builder#1200, chaotic-cx/nyx#1069; NVIDIA/gds-nvidia-fs#41,
# ZaidQureshi/bam#13
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol '__vma_x'\n"
         'ERROR: An error occurred while performing the step: "Building kernel modules".',
         "boot the previous kernel"),
        ("[ 3927.73] libnvm: module using GPL-only symbols uses symbols from proprietary module "
         "nvidia.", "open kernel module"),
        ('ERROR: An error occurred while performing the step: "Building kernel modules". See x',
         "headers"),
    ],
)  # fmt: skip
def test_a_kernel_that_refuses_the_drivers_module_is_named(line: str, words: str) -> None:
    assert words in findings(line)["DRV003"].fix


def test_a_module_of_others_that_uses_such_symbols_is_not_the_drivers() -> None:
    report = "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |\n"
    line = "ERROR: modpost: GPL-incompatible module vboxdrv.ko uses GPL-only symbol 'kvm_x'\n"
    assert not any(each.is_problem for each in findings(report + line).values())


def test_a_rocm_error_cites_threads_about_rocm() -> None:
    found = findings("torch.AcceleratorError: HIP error: invalid device function")["TOR003"]
    assert found.status is Status.FAIL
    assert found.verdict.sources == ("pytorch-164346", "pytorch-103973")


# intel/torch-xpu-ops#2024, IamCreateAI/Ruyi-Models#31
def test_code_that_asks_for_cuda_on_an_intel_gpu_is_no_reason_for_another_torch() -> None:
    line = "AssertionError: Torch not compiled with CUDA enabled"
    assert "CUDA build" in findings(line)["DRV003"].fix
    beside = f"{line}\nIs CUDA available: False\nIs XPU available: True\ntorch==2.9.0+xpu\n"
    beside += "GPU models and configuration: No CUDA\nNvidia driver version: No CUDA\n"
    assert findings(beside)["DRV003"].status is not Status.NOTE
    laptop = f"{line}\nIntel(R) Arc(TM) Graphics\nGPU 0: NVIDIA GeForce RTX 4060 (UUID: GPU-1a2b)\n"
    assert findings(laptop)["TOR002"].status is Status.FAIL


# ggml-org/llama.cpp#7218, ollama/ollama#2934
def test_an_unknown_error_of_ggml_is_the_module_nvidia_uvm_but_not_in_wsl() -> None:
    line = "ggml_cuda_init: failed to initialize CUDA: unknown error"
    assert "nvidia_uvm" in findings(line)["GPU001"].fix
    beside = f"{line}\nLinux 6.6.87.2-microsoft-standard-WSL2\n"
    assert "nvidia_uvm" not in findings(beside)["GPU001"].fix
