"""Whose program holds the memory of a GPU, and for which kernels dkms built the module."""

from __future__ import annotations

import pytest

from doctor.cli.findings import findings_of
from doctor.cli.read import facts_of_text
from doctor.judge.check import Finding
from doctor.pasted.holders import read as read_holders

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB\n"
TABLE = (
    "| NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: 12.8 |\n"
    "|   0  NVIDIA GeForce RTX 3090   Off |   00000000:01:00.0 Off |      N/A |\n"
    "| 61%   67C    P2      201W / 350W |   19011MiB /  24576MiB |     44%      Default |\n"
    "|    0   N/A  N/A           21443      {}   {}                  {}MiB |\n"
)
GPUSTAT = "[0] NVIDIA GeForce RTX 3090 | 67°C,  44 % | 19011 / 24576 MB | {}\n"
DOWN = (
    "$ nvidia-smi\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
)
DKMS = "$ uname -r\n6.17.0-8-generic\n$ dkms status\nnvidia/580.95.05, {}, x86_64: installed\n"


def reported(text: str) -> Finding | None:
    found = findings_of(facts_of_text(text, "report"))
    return next((each for each in found if each.check.code == "DRV003" and each.is_problem), None)


@pytest.mark.parametrize(
    "text",
    [
        OOM + TABLE.format("C", "/usr/bin/ollama", 17210),
        OOM + GPUSTAT.format("bob:ollama/21443(17210M) ada:python/991(1500M)"),
    ],
)
def test_a_program_that_trains_nothing_holds_the_memory(text: str) -> None:
    found = reported(text)
    assert found
    assert "Process 21443 holds 16.8 GiB of GPU 0" in found.verdict.summary


@pytest.mark.parametrize(
    "text",
    [
        TABLE.format("C", "/usr/bin/ollama", 17210),  # nobody lacks memory
        OOM + TABLE.format("C", "/opt/venv/bin/python3", 17210),  # may be the job
        OOM + TABLE.format("C", "VLLM::EngineCore", 17210),  # may generate for it
        OOM + TABLE.format("C", "./main", 17210),  # the job's own program
        OOM + TABLE.format("C", "/usr/bin/ollama", 1500),  # too little
        OOM + TABLE.format("G", "/usr/lib/xorg/Xorg", 8000),  # a display
        OOM + GPUSTAT.format("ada:python/991(17210M)"),
        OOM + GPUSTAT.format("ada(17210M)"),  # without names
    ],
)
def test_what_may_be_the_job_accuses_no_other_program(text: str) -> None:
    found = reported(text + "torch 2.8.0+cu128\n")
    assert found is None or "holds" not in found.verdict.summary


def test_a_module_that_was_built_for_other_kernels() -> None:
    found = reported(DKMS.format("6.14.0-37-generic") + DOWN)
    assert found
    assert "6.14.0-37-generic, and the kernel that runs is 6.17.0-8-generic" in (
        found.verdict.summary
    )
    assert "linux-headers" in found.fix


@pytest.mark.parametrize(
    "text",
    [
        DKMS.format("6.17.0-8-generic") + DOWN,  # built for it: another reason
        DKMS.format("6.14.0-37-generic") + TABLE.format("C", "python", 900),  # it runs
        "$ uname -r\n6.17.0-8-generic\n" + DOWN,  # dkms was not asked
    ],
)
def test_a_module_of_the_kernel_that_runs_is_no_reason(text: str) -> None:
    found = reported(text)
    assert found is None or "dkms built" not in found.verdict.summary


HCA = "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: {}\n\t\tRate: 10\n{}\n"


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        (HCA.format("Disabled", "NCCL_IB_HCA=mlx5_0"), True),
        (HCA.format("Polling", "export UCX_NET_DEVICES=mlx5_0:1"), True),
        (HCA.format("Disabled", "NCCL_IB_HCA=mlx5_1"), False),
        (HCA.format("Disabled", "NCCL_IB_HCA=^mlx5_0"), False),
        (HCA.format("Polling", "mlx5_0 is not cabled"), False),
    ],
)
def test_a_port_that_the_job_asks_for_is_down(text: str, is_named: bool) -> None:
    assert bool(reported(text)) is is_named


ASKS = "$ {} python -c 'import torch; print(torch.cuda.is_available())'\n{}\n"
LISTED = "$ nvidia-smi -L\nGPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-99999999-2222)\n"


@pytest.mark.parametrize(
    ("command", "answer", "is_named"),
    [
        ("apptainer exec torch.sif", "False", True),
        ("docker run --rm torch", "False", True),
        ("apptainer exec --nv torch.sif", "False", False),
        ("apptainer exec torch.sif", "True", False),
        ("docker exec train", "False", False),
        ("docker run -it torch ipython\nIn [2]:", "Out[2]: False", True),
        ("docker run -it --gpus all torch ipython\nIn [2]:", "Out[2]: False", False),
    ],
)
def test_torch_in_a_container_without_gpus(command: str, answer: str, is_named: bool) -> None:
    found = reported(ASKS.format(command, answer) + LISTED)
    assert bool(found and "has no option for GPUs" in found.verdict.summary) is is_named


HELD = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {} has a total "
    "capacity of 23.55 GiB\n"
)
SERVER = "[{}] NVIDIA GeForce RTX 4090 | 54'C,  98 % | 18432 / 24564 MB | ann:ollama/4242(18000M)\n"


def test_a_server_is_a_holder_only_on_the_gpu_that_is_short() -> None:
    def causes(text: str) -> set[str]:
        return {each.cause for each in read_holders(text.splitlines())}

    assert causes(HELD.format(0) + SERVER.format(0)) == {"gpu-held-by-others"}
    assert not causes(HELD.format(0) + SERVER.format(1))
    assert not causes("No CUDA out of memory any more since batch 1\n" + SERVER.format(0))


EMPTY_LIST = (
    "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2 |\n"
    "|   0  Tesla V100-SXM2-32GB      On  | 00000000:07:00.0 Off |                    0 |\n"
    "| N/A   34C    P0    57W / 300W |  19803MiB / 32768MiB |      0%      Default |\n"
    "| Processes:                                                              |\n"
    "|  GPU   GI   CI        PID   Type   Process name                GPU Memory |\n"
    "|=========================================================================|\n"
    "{}\n"
)


@pytest.mark.parametrize(
    ("told", "is_problem"),
    [
        ("+---------+\nThe memory is not released after the job was killed.", True),
        ("No process uses the GPU, but its memory is still occupied.", True),
        ("+---------+", False),  # as in every notebook that runs in a container
        ("|  No running processes found  |", False),
    ],
)
def test_memory_without_a_process_counts_where_somebody_misses_it(
    told: str, is_problem: bool
) -> None:
    found = findings_of(facts_of_text(EMPTY_LIST.format(told), "report"))
    assert any(each.check.code == "GPU002" and each.is_problem for each in found) is is_problem
