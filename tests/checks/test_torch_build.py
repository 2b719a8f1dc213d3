from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doctor._util.records import Ended, Unknown
from doctor.checks.torch_build import libraries as torch_libraries
from doctor.checks.torch_build.has_code import HAS_GPU_CODE
from doctor.checks.torch_build.imports import TORCH_IMPORTS
from doctor.checks.torch_build.replacement import JETSON
from doctor.checks.torch_build.vendor import BUILT_FOR_THIS_GPU
from doctor.errors.cause import Cause
from doctor.errors.fitted import worded
from doctor.facts.host import Host
from doctor.facts.interpreter import Interpreter, Libraries, Torch, TorchGpu
from doctor.facts.machine import Driver, Gpu
from doctor.facts.views import JobGpu, JobGpus
from doctor.hardware.product import Capability
from doctor.job.job import Target
from doctor.judge.check import Owner, Status, Verdict
from doctor.judge.known_errors import BROKEN_GPU, GPU_TAKEN, MIXED_CUDNN, PATTERNS, REFUSES_DEVICE

imports = TORCH_IMPORTS.judge
built_for_this_gpu = BUILT_FOR_THIS_GPU.judge
has_gpu_code = HAS_GPU_CODE.judge


def libraries_match(*packages: str, **facts: Any) -> Verdict:
    """TOR004 over these facts and installed distributions."""
    interpreter = Interpreter(path="python", chosen="test", importing=RAN, packages=packages)
    return torch_libraries.LIBRARIES_MATCH.judge(interpreter=interpreter, **facts)


RAN = Ended(how="ok", seconds=0.4)


def error(detail: str) -> Ended:
    return Ended(how="error", detail=detail)


def archs(numbers: str) -> tuple[str, ...]:
    return tuple(f"sm_{number}" for number in numbers.split())


V2_6 = Torch(version="2.6.0+cu124", cuda="12.4", archs=archs("50 60 70 75 80 86 90"))
V2_8 = Torch(version="2.8.0+cu128", cuda="12.8", archs=archs("70 75 80 86 90 100 120"))
V2_11 = Torch(version="2.11.0", cuda="13.0", archs=archs("75 80 86 90 100 120"))
V2_15 = Torch(version="2.15.0", cuda="13.2", archs=archs("75 80 86 90 100 120"))
AARCH64 = Torch(version="2.15.0", cuda="13.0", archs=archs("80 90 100 110 120"))
DRIVER_580 = Driver(nvml=RAN, cuda=RAN, version="580.95.05", cuda_version=13000)
CPU_ONLY = Torch(version="2.13.0")
ROCM = Torch(version="2.9.1+rocm6.4", hip="6.4.43482", archs=("gfx90a", "gfx942"))


# TOR001


def interpreter(ended: Ended, traceback: str = "") -> Interpreter:
    return Interpreter(
        path="/opt/my env/bin/python",
        chosen="VIRTUAL_ENV",
        version="3.12.3",
        importing=ended,
        traceback=traceback,
    )


def imported(ended: Ended, traceback: str = "") -> Verdict:
    return imported_by(interpreter(ended, traceback))


def imported_by(interpreter: Interpreter) -> Verdict:
    verdict = imports(
        interpreter=interpreter,
        torch=Unknown(reason="not there"),
        driver=None,
        job_gpus=Unknown(reason="no GPU"),
        host=Host(system="Linux"),
        target=Target("nvidia", ""),
    )
    assert isinstance(verdict, Verdict)
    return verdict


def test_import_passes_with_its_seconds() -> None:
    ended = Ended(how="ok", seconds=2.34)
    verdict = imports(
        interpreter=interpreter(ended),
        torch=V2_15,
        driver=None,
        job_gpus=Unknown(reason="no GPU"),
        host=BARE,
        target=Target("nvidia", ""),
    )
    assert verdict.status is Status.PASS
    assert verdict.seconds == 2.34
    assert "torch 2.15.0" in verdict.summary
    assert "/opt/my env/bin/python (VIRTUAL_ENV)" in verdict.summary


def test_slow_import_warns() -> None:
    verdict = imported(Ended(how="ok", seconds=41.0))
    assert verdict.status is Status.WARN
    assert "41 s" in verdict.summary
    assert "30 s" in verdict.summary


def test_missing_torch_names_the_interpreter() -> None:
    verdict = imported(error("ModuleNotFoundError: No module named 'torch'"))
    assert verdict.status is Status.FAIL
    assert "/opt/my env/bin/python (VIRTUAL_ENV)" in verdict.summary
    assert verdict.commands == ("python -m pip install torch",)
    assert verdict.fix
    assert "--python" in verdict.fix


@pytest.mark.parametrize(
    ("ended", "traceback", "text", "remedy"),
    [
        (error("ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4"), "",
         "ImportError: libcusparse", "libnvJitLink"),
        (error("ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister"), "",
         "ncclCommRegister", "Uninstall the nvidia-nccl-cuNN"),
        (error("OSError: libcudart.so.13: cannot open shared object file"), "",
         "libcudart.so.13", "Libraries are missing"),
        (error("ImportError: see above"), "RuntimeError: cuDNN version incompatibility: PyTorch",
         "see above", "only its own cuDNN"),
        (error("UnsupportedPython: this is Python 3.6.15; 3.9 or newer required"), "",
         "3.6.15", "Python 3.8 or newer"),
        (error("ImportError: /x/torch.py is not an installed PyTorch"), "", "/x/torch.py",
         "PYTHONPATH"),
        (error("ImportError: libgomp.so.1: cannot allocate memory in static TLS block"), "",
         "libgomp", "LD_PRELOAD"),
        (error("ImportError: version `GLIBC_2.27' not found (required by libcurand.so.10)"), "",
         "GLIBC_2.27", "newer distribution"),
        (error("ImportError: libstdc++.so.6: version `GLIBCXX_3.4.30' not found"), "",
         "GLIBCXX_3.4.30", "older libstdc++"),
        (error("OSError: [Errno 24] Too many open files"), "", "open files", "ulimit -n"),
        (error("MemoryError: "), "", "MemoryError", "ulimit -v unlimited"),
        (error("ImportError: libtorch_cpu.so: failed to map segment from shared object"), "",
         "libtorch_cpu.so", "ulimit -v unlimited"),
        (error("RuntimeError: can't start new thread"), "", "new thread", "ulimit -u"),
        (error("ModuleNotFoundError: No module named 'torch._C'"), "", "torch._C", ""),
        (Ended(how="signal", detail="SIGILL inside import torch"), "", "SIGILL", ""),
        (Ended(how="timeout", detail="no answer in 120 s inside import torch"), "",
         "no answer in 120 s", ""),
    ],
)  # fmt: skip
def test_failed_imports_get_their_remedy(
    ended: Ended, traceback: str, text: str, remedy: str
) -> None:
    """An empty remedy is the check's own: reinstall torch."""
    verdict = imported(ended, traceback)
    assert verdict.status is Status.FAIL
    assert text in verdict.summary
    assert "/opt/my env/bin/python (VIRTUAL_ENV)" in verdict.summary
    assert bool(verdict.fix) is bool(remedy)
    assert remedy in (verdict.fix or "")
    assert TORCH_IMPORTS.owner is Owner.ENVIRONMENT


def test_an_import_that_was_killed_is_unknown() -> None:
    verdict = imported(Ended(how="signal", detail="SIGKILL inside import torch"))
    assert verdict.status is Status.UNKNOWN
    assert "MEM002" in verdict.summary


# TOR002

NVIDIA = Target("nvidia", "a job wants a GPU")
AMD = Target("rocm", "AMD GPUs are on the bus")
BARE = Host(system="Linux")
WITH_NVIDIA = Host(system="Linux", nvidia_devices=1)
WITH_AMD = Host(system="Linux", amd_devices=1)


@pytest.mark.parametrize(
    ("torch", "host", "target", "status", "text"),
    [
        (V2_15, WITH_NVIDIA, NVIDIA, Status.PASS, "built for CUDA 13.2"),
        (V2_15, Unknown(reason="no procfs"), NVIDIA, Status.PASS, "CUDA 13.2"),
        (CPU_ONLY, WITH_NVIDIA, NVIDIA, Status.FAIL, "CPU only"),
        (CPU_ONLY, BARE, NVIDIA, Status.SKIP, "CPU only"),
        (CPU_ONLY, Unknown(reason="no procfs"), NVIDIA, Status.UNKNOWN, "no procfs"),
        (ROCM, WITH_NVIDIA, NVIDIA, Status.FAIL, "ROCm 6.4.43482"),
        (ROCM, WITH_AMD, AMD, Status.PASS, "ROCm 6.4.43482"),
        (V2_15, WITH_AMD, AMD, Status.FAIL, "ROCm build"),
        (CPU_ONLY, WITH_AMD, AMD, Status.FAIL, "CPU only"),
        (Torch(version="2.9.0+cpu", cuda="12.8"), WITH_NVIDIA, NVIDIA, Status.PASS, "CUDA 12.8"),
    ],
)
def test_build_and_vendor(
    torch: Torch, host: Host | Unknown, target: Target, status: Status, text: str
) -> None:
    verdict = built_for_this_gpu(
        torch=torch,
        host=host,
        target=target,
        driver=DRIVER_580,
        job_gpus=Unknown(reason="no GPU"),
        interpreter=interpreter(RAN),
    )
    assert verdict.status is status
    assert text in verdict.summary


# TOR003


def gpu(on: Capability | None, kernel: Ended | None = None, index: int = 0) -> JobGpu:
    if on is None:
        return JobGpu(nvml=Gpu(index=index, uuid="GPU-1", name="Card"))
    record = TorchGpu(
        index=index, uuid=None, name="Card", capability=on, memory_total=2**34, kernel=kernel
    )
    return JobGpu(torch=record)


def code(
    torch: Torch,
    *gpus: JobGpu,
    driver: Driver | None = DRIVER_580,
    arch: str = "x86_64",
    **env: str,
) -> Verdict:
    verdict = has_gpu_code(
        torch=torch,
        job_gpus=JobGpus(gpus=gpus, by="torch"),
        driver=driver,
        host=Host(system="Linux", arch=arch, env=env),
        interpreter=interpreter(RAN),
    )
    assert isinstance(verdict, Verdict)
    return verdict


def built(*codes: str, cuda: str = "12.9") -> Torch:
    return Torch(version="2.9.0", cuda=cuda, archs=codes)


PASS, WARN, FAIL, UNKNOWN = Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN


@pytest.mark.parametrize(
    ("torch", "on", "status", "text"),
    [
        # what the default wheels run on
        (V2_6, (6, 1), PASS, "sm_60"),
        (V2_6, (7, 0), PASS, "sm_70"),
        (V2_6, (8, 9), PASS, "sm_86"),
        (V2_6, (9, 0), PASS, "sm_90"),
        (V2_6, (10, 0), FAIL, "10.0"),
        (V2_6, (12, 0), FAIL, "12.0"),
        (V2_8, (7, 0), PASS, "sm_70"),
        (V2_8, (6, 1), FAIL, "6.1"),
        (V2_8, (12, 1), PASS, "sm_120"),
        (V2_11, (7, 0), FAIL, "7.0"),
        (V2_11, (7, 5), PASS, "sm_75"),
        (V2_11, (8, 0), PASS, "sm_80"),
        (V2_15, (8, 6), PASS, "sm_86"),
        (V2_15, (10, 3), PASS, "sm_100"),
        (V2_15, (11, 0), FAIL, "11.0"),
        (AARCH64, (11, 0), PASS, "sm_110"),
        (AARCH64, (12, 1), PASS, "sm_120"),
        # Jetson and other chips that do not run the code of their major version
        (V2_15, (8, 7), FAIL, "8.7"),
        (built("sm_87"), (8, 7), PASS, "sm_87"),
        (built("sm_87"), (8, 9), FAIL, "8.9"),
        (built("sm_87"), (8, 6), FAIL, "8.6"),
        (V2_6, (7, 2), FAIL, "7.2"),
        (built("sm_72"), (7, 2), PASS, "sm_72"),
        (V2_6, (6, 2), FAIL, "6.2"),
        (built("sm_61"), (6, 2), FAIL, "6.2"),
        (V2_6, (5, 3), FAIL, "5.3"),
        (V2_6, (5, 2), PASS, "sm_50"),
        (V2_15, (10, 1), FAIL, "10.1"),
        (built("sm_101"), (10, 1), PASS, "sm_101"),
        (built("sm_101"), (11, 0), PASS, "sm_101"),
        (built("sm_101"), (10, 3), FAIL, "10.3"),
        # suffixes: a runs on exactly that chip, f in its family
        (built("sm_90a"), (9, 0), PASS, "sm_90a"),
        (built("sm_100a"), (10, 3), FAIL, "10.3"),
        (built("sm_100f"), (10, 3), PASS, "sm_100f"),
        (built("sm_103f"), (10, 0), FAIL, "10.0"),
        (built("sm_120a"), (12, 1), FAIL, "12.1"),
        # PTX
        (built("sm_90", "compute_90"), (12, 0), WARN, "compute_90 (PTX)"),
        (built("sm_90", "compute_90a"), (12, 0), FAIL, "12.0"),
        (built("sm_90", "compute_120"), (10, 0), FAIL, "10.0"),
        (built("compute_100f"), (10, 3), WARN, "compute_100f"),
        (built("compute_100f"), (12, 0), FAIL, "12.0"),
        (V2_15, (13, 0), UNKNOWN, "13.0"),
        (V2_8, (13, 0), FAIL, "13.0"),
        # no list
        (built(), (9, 0), UNKNOWN, "9.0"),
        (built("sm_90", "what"), (9, 0), PASS, "sm_90"),
        (V2_15, None, UNKNOWN, "GPU 0"),
    ],
)  # fmt: skip
def test_code_by_table(torch: Torch, on: Capability | None, status: Status, text: str) -> None:
    verdict = code(torch, gpu(on))
    assert verdict.status is status, verdict
    assert text in verdict.summary
    assert on is None or f"{on[0]}.{on[1]}" in verdict.summary


@pytest.mark.parametrize(
    ("torch", "on", "arch", "line"),
    [
        (V2_11, (7, 0), "x86_64", "torch==2.14.*"),
        (V2_8, (6, 0), "x86_64", "whl/cu126"),
        (V2_6, (12, 0), "x86_64", "whl/cu130"),
        (V2_15, (11, 0), "aarch64", "whl/cu130"),
        (built("sm_100"), (9, 0), "x86_64", "whl/cu130"),
    ],
)
def test_remedy_names_the_wheel_with_the_code(
    torch: Torch, on: Capability, arch: str, line: str
) -> None:
    verdict = code(torch, gpu(on), arch=arch)
    assert line in verdict.commands[0]
    after_error = code(
        torch, gpu(on, error("RuntimeError: CUDA error: no kernel image is available")), arch=arch
    )
    assert after_error.status is FAIL
    assert (after_error.commands, after_error.fix) == (verdict.commands, verdict.fix)


@pytest.mark.parametrize("on", [(8, 7), (7, 2), (6, 2), (5, 3), (10, 1)])
def test_a_jetson_needs_the_wheel_of_nvidia(on: Capability) -> None:
    verdict = code(built("sm_37"), gpu(on), arch="aarch64")
    assert (verdict.status, verdict.commands, verdict.fix) == (FAIL, (), JETSON)


@pytest.mark.parametrize("on", [(3, 5), (14, 0)])
def test_no_command_if_no_wheel_of_pytorch_has_the_code(on: Capability) -> None:
    verdict = code(built("sm_90", cuda="12.6"), gpu(on))
    assert (verdict.status, verdict.commands) == (FAIL, ())


def test_an_unread_driver_gets_the_wheel_that_the_oldest_driver_runs() -> None:
    verdict = code(V2_11, gpu((7, 0)), driver=None)
    assert "whl/cu126" in verdict.commands[0]
    assert "whl/cu128" in code(V2_6, gpu((12, 0)), driver=None).commands[0]


def test_a_kernel_that_ran_overrides_the_table() -> None:
    for torch, on in ((V2_6, (12, 0)), (V2_15, (8, 7)), (built(), (9, 0))):
        verdict = code(torch, gpu(on, RAN))
        assert verdict.status is PASS


OLD_DRIVER = next(row for row in PATTERNS if row.id == "kernel-not-supported")


@pytest.mark.parametrize(
    ("kernel", "owner", "pattern"),
    [
        (error("RuntimeError: CUDA error: out of memory"), Owner.ENVIRONMENT, GPU_TAKEN),
        (error("AcceleratorError: CUDA error: uncorrectable ECC error"), Owner.MACHINE, BROKEN_GPU),
        (error("ValueError: the sum came back as 3.0, not 16777216"), Owner.MACHINE, BROKEN_GPU),
        (Ended(how="timeout", detail="no answer in 60 s inside kernel"), Owner.MACHINE, BROKEN_GPU),
        (Ended(how="signal", detail="SIGSEGV inside kernel"), Owner.ENVIRONMENT, None),
        (error("RuntimeError: CUDA error: operation not supported"), Owner.ENVIRONMENT, OLD_DRIVER),
        (error("RuntimeError: CUDA error: mapping of buffer object failed"), None, None),
    ],
)
def test_a_kernel_that_failed_overrides_the_table(
    kernel: Ended, owner: Owner | None, pattern: Cause | None
) -> None:
    verdict = code(V2_15, gpu((9, 0), kernel))
    assert verdict.status is FAIL
    assert kernel.detail in verdict.summary
    assert verdict.owner is owner
    assert verdict.fix
    assert pattern is None or verdict.fix == worded(pattern, kernel.detail).fix


NO_IMAGE = error("AcceleratorError: CUDA error: no kernel image is available for execution")


@pytest.mark.parametrize(
    ("torch", "on", "kernel", "env", "status", "command"),
    [
        (V2_11, (9, 0), NO_IMAGE, {"CUDA_FORCE_PTX_JIT": "1"}, FAIL, "unset CUDA_FORCE_PTX_JIT"),
        (V2_11, (9, 0), NO_IMAGE, {"CUDA_FORCE_PTX_JIT": "0"}, FAIL, "pip install"),
        (V2_11, (7, 0), NO_IMAGE, {"CUDA_FORCE_PTX_JIT": "1"}, FAIL, "pip install"),
        (V2_11, (9, 0), NO_IMAGE, {"CUDA_DISABLE_PTX_JIT": "1"}, FAIL, "pip install"),
        (built("compute_80"), (9, 0), NO_IMAGE, {"CUDA_DISABLE_PTX_JIT": "1"}, FAIL,
         "unset CUDA_DISABLE_PTX_JIT"),
        (V2_11, (9, 0), None, {"CUDA_FORCE_PTX_JIT": "1"}, UNKNOWN, ""),
        (V2_11, (9, 0), RAN, {"CUDA_FORCE_PTX_JIT": "1"}, PASS, ""),
        (V2_11, (9, 0), error("RuntimeError: CUDA error: out of memory"),
         {"CUDA_FORCE_PTX_JIT": "1"}, FAIL, "nvidia-smi"),
    ],
)  # fmt: skip
def test_a_variable_that_hides_code_is_named_instead_of_another_build(
    torch: Torch, on: Capability, kernel: Ended | None, env: dict[str, str], status: Status,
    command: str,
) -> None:  # fmt: skip
    verdict = code(torch, gpu(on, kernel), **env)
    assert verdict.status is status
    assert command in "\n".join(verdict.commands)


def test_several_gpus() -> None:
    assert code(V2_11, gpu((9, 0), RAN), gpu((7, 0), None, 1)).status is FAIL
    verdict = code(V2_11, gpu((9, 0), RAN), gpu((9, 0), None, 1), gpu((9, 0), RAN, 2))
    assert verdict.status is PASS
    assert "GPU 1 (Card), 9.0" in verdict.summary
    assert "2 GPUs" in verdict.summary
    assert code(V2_11).status is UNKNOWN
    assert code(V2_11, gpu((9, 0), RAN), gpu(None)).status is UNKNOWN


INVALID = error("RuntimeError: HIP error: invalid device function")
WHEEL = Torch(version="2.7.1+rocm6.3", hip="6.3.42131")
OWN = Torch(version="2.7.0a0+git1234", hip="6.3.42131")
OF_AMD = Torch(version="2.13.0+rocm10.0.0", hip="10.0.1")


def amd(gfx: str | None, kernel: Ended | None = None) -> JobGpu:
    return JobGpu(
        torch=TorchGpu(index=0, uuid=None, name="AMD Radeon", capability=(0, 0), memory_total=0,
                       gfx=gfx, kernel=kernel)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("torch", "gfx", "kernel", "status", "command"),
    [
        # what ran decides, then what the build lists, then what PyTorch's wheels contain
        (ROCM, "gfx1100", RAN, PASS, None),
        (ROCM, "gfx942", None, PASS, None),
        (ROCM, "gfx1030", None, FAIL, "10.3.0"),
        (ROCM, None, None, UNKNOWN, None),
        (WHEEL, "gfx1010", None, FAIL, None),
        (WHEEL, "gfx1031", None, FAIL, "10.3.0"),
        (WHEEL, "gfx1151", None, FAIL, "11.0.0"),
        (WHEEL, "gfx942", None, UNKNOWN, None),
        (OWN, "gfx1010", None, UNKNOWN, None),
        (OF_AMD, "gfx1152", None, UNKNOWN, None),
        (OWN, "gfx1103", INVALID, FAIL, "11.0.0"),
        (OWN, None, INVALID, FAIL, None),
    ],
)
def test_rocm_code_is_compared_by_gfx_names(
    torch: Torch, gfx: str | None, kernel: Ended | None, status: Status, command: str | None
) -> None:
    verdict = code(torch, amd(gfx, kernel))
    assert verdict.status is status
    wanted = (f"export HSA_OVERRIDE_GFX_VERSION={command}",) if command else ()
    assert verdict.commands == wanted


def test_the_remedy_on_rocm_names_a_wheel_or_that_there_is_none() -> None:
    assert "ROCm 6.4 or newer" in (code(WHEEL, amd("gfx1151")).fix or "")
    assert "PYTORCH_ROCM_ARCH=gfx1010" in (code(WHEEL, amd("gfx1010")).fix or "")


# TOR004

SITE = "/venv/lib/python3.12/site-packages/nvidia"
WHEELS = (
    f"{SITE}/cudnn/lib/libcudnn.so.9",
    f"{SITE}/cudnn/lib/libcudnn_graph.so.9",
    f"{SITE}/cublas/lib/libcublas.so.12",
    f"{SITE}/cublas/lib/libcublasLt.so.12",
    f"{SITE}/nccl/lib/libnccl.so.2",
    f"{SITE}/nvjitlink/lib/libnvJitLink.so.12",
)
NGC = ("/usr/lib/x86_64-linux-gnu/libcudnn.so.9.1.0", "/usr/local/cuda/lib64/libcublas.so.12")


def libraries(*loaded: str, **rest: Any) -> Libraries:
    return Libraries(loaded=loaded, **rest)


@pytest.mark.parametrize(
    ("paths", "status", "text"),
    [
        (libraries(*WHEELS), PASS, f"cuDNN in {SITE}/cudnn/lib"),
        (libraries(*WHEELS, used=RAN), PASS, "NCCL in"),
        (libraries(*NGC), PASS, "cuDNN in /usr/lib/x86_64-linux-gnu"),
        (libraries(), PASS, ""),
        (libraries(*WHEELS, "/usr/lib/libcudnn_cnn.so.9"), FAIL, "/cudnn/lib and /usr/lib"),
        (libraries(*WHEELS, "/opt/cuda/libcublasLt.so.12"), FAIL, "cuBLAS"),
        (libraries(*WHEELS, "/opt/libnvJitLink.so.12"), FAIL, "nvJitLink"),
        (libraries(*WHEELS, "/opt/libnccl.so.2", used=error("no")), FAIL, "NCCL"),
        (libraries(*WHEELS, offered=("/opt/libcudnn.so.9",)), WARN, "cuDNN in /opt"),
        (libraries(*WHEELS, offered=(WHEELS[0],)), PASS, "cuBLAS in"),
        (libraries(*WHEELS, offered=(f"{SITE}/cudnn/lib/libcudnn_cnn.so.9",)), PASS, "cuDNN in"),
        (libraries(NGC[1], offered=("/opt/libcudnn.so.9",)), PASS, "cuBLAS in"),
        (libraries(*WHEELS, used=error("RuntimeError: no driver")), UNKNOWN, "no driver"),
        (libraries(used=error("RuntimeError: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH")), FAIL,
         "SUBLIBRARY_VERSION_MISMATCH"),
    ],
)  # fmt: skip
def test_libraries(paths: Libraries, status: Status, text: str) -> None:
    verdict = libraries_match(libraries=paths, torch=V2_15)
    assert verdict.status is status, verdict
    assert text in verdict.summary


NCCL_12, NCCL_13 = "nvidia-nccl-cu12==2.29.3", "nvidia-nccl-cu13==2.29.7"
UNREAD = Unknown(reason="no kernel ran")


@pytest.mark.parametrize(
    ("packages", "status"),
    [
        ((NCCL_13,), UNKNOWN),
        ((NCCL_13, "nvidia-cublas-cu12==12.8.4.1"), UNKNOWN),
        (("nvidia-cublas-cu11==11.1", "nvidia-cublas-cu12==12.8.4.1"), UNKNOWN),  # other file names
        ((NCCL_12, NCCL_13), WARN),
        (("nvidia-cudnn-cu12==9.10.2.21", "nvidia-cudnn-cu13==9.19.0.56"), WARN),
    ],
)
def test_packages_that_write_the_same_files_are_named(
    packages: tuple[str, ...], status: Status
) -> None:
    assert libraries_match(*packages, libraries=UNREAD, torch=V2_15).status is status
    whole = libraries_match(*packages, libraries=libraries(*WHEELS), torch=V2_15)
    assert whole.status is (PASS if status is UNKNOWN else WARN)
    mixed = libraries(*WHEELS, "/opt/libnccl.so.2")
    assert libraries_match(*packages, libraries=mixed, torch=V2_15).status is FAIL


@pytest.mark.parametrize(
    ("packages", "status"),
    [
        ((NCCL_13,), UNKNOWN),
        ((NCCL_13, "nvidia-cublas-cu12==12.8.4.1"), UNKNOWN),
        (("nvidia-ml-py==12.560.30", "nvidia-cudnn-cu12==9.10.2.21"), UNKNOWN),
        ((NCCL_12, NCCL_13), WARN),
    ],
)
def test_a_list_of_packages_names_them_without_the_cuda_of_torch(
    packages: tuple[str, ...], status: Status
) -> None:
    verdict = libraries_match(*packages, libraries=UNREAD, torch=Unknown(reason="not in it"))
    assert verdict.status is status


def test_the_package_of_torchs_cuda_is_kept() -> None:
    verdict = libraries_match(NCCL_12, NCCL_13, libraries=UNREAD, torch=V2_15)
    assert verdict.commands == (
        "python -m pip uninstall nvidia-nccl-cu12",
        'python -m pip install --force-reinstall --no-deps "nvidia-nccl-cu13==2.29.7"',
    )


def test_a_failed_import_names_both_packages_of_nccl() -> None:
    failed = error("ImportError: libtorch_cuda.so: undefined symbol: ncclCommResume")
    both = msgspec.structs.replace(interpreter(failed), packages=(NCCL_12, NCCL_13))
    assert "nvidia-nccl-cu12==2.29.3 and" in imported_by(both).summary
    assert "nvidia-nccl-cu12==" not in imported_by(interpreter(failed)).summary


@pytest.mark.parametrize(
    ("path", "is_named"),
    [
        ("/home/a/src/torch/__init__.py", True),
        ("/opt/venv/lib/python3.12/site-packages/torch/__init__.py", False),
        ("/usr/lib/python3/dist-packages/torch/__init__.py", False),
        (None, False),
    ],
)
def test_half_a_torch_on_the_path_is_named(path: str | None, is_named: bool) -> None:
    failed = interpreter(error("ModuleNotFoundError: No module named 'torch._utils'"))
    verdict = imported_by(msgspec.structs.replace(failed, torch_path=path))
    assert verdict.status is FAIL
    assert ("/home/a/src/torch was found first" in verdict.summary) is is_named


CUDA_13 = (f"{SITE}/cu13/lib/libcublas.so.13", f"{SITE}/cudnn/lib/libcudnn.so.9")


@pytest.mark.parametrize(
    ("offered", "status"),
    [
        ("/usr/local/cuda-11.8/lib64/libcublas.so.11", PASS),  # another name to the linker
        ("/usr/local/cuda-13.0/lib64/libcublas.so.13.0.0", PASS),  # torch's own path comes first
        ("/usr/local/cuda-13.0/lib64/libnvJitLink.so.13", PASS),
        ("/opt/cudnn8/lib/libcudnn_cnn_infer.so.8", PASS),
        ("/opt/cudnn/lib/libcudnn_graph.so.9.5.1", WARN),
        ("/opt/cudnn/lib/libcudnn.so.9.5.1", WARN),
    ],
)
def test_only_a_copy_that_can_be_loaded_is_a_warning(offered: str, status: Status) -> None:
    verdict = libraries_match(libraries=libraries(*CUDA_13, offered=(offered,)), torch=V2_15)
    assert verdict.status is status, verdict
    directory = offered.rpartition("/")[0]
    loaded_at_all = "nvJitLink" not in offered
    assert (directory in verdict.summary) is loaded_at_all


def test_cudnns_own_error_is_judged_without_the_list_of_files() -> None:
    message = "RuntimeError: cuDNN version incompatibility: PyTorch was compiled"
    torch = Torch(version="2.9.1", cuda="12.8", cudnn_error=message)
    unread = Unknown(reason="not recorded")
    assert libraries_match(libraries=unread, torch=torch).status is FAIL
    assert libraries_match(libraries=None, torch=torch).status is FAIL
    assert libraries_match(libraries=unread, torch=V2_15).status is UNKNOWN
    assert libraries_match(libraries=None, torch=V2_15).status is Status.SKIP


@pytest.mark.parametrize(
    ("message", "pattern"),
    [
        ("RuntimeError: cuDNN version incompatibility: PyTorch was compiled", MIXED_CUDNN),
        (
            "RuntimeError: cuDNN version 91002 is not compatible with devices with SM < 7.5",
            REFUSES_DEVICE,
        ),
    ],
)
def test_an_error_of_cudnn(message: str, pattern: Cause) -> None:
    torch = Torch(version="2.9.1", cuda="12.8", cudnn_error=message)
    verdict = libraries_match(libraries=libraries(*WHEELS), torch=torch)
    assert verdict.status is FAIL
    assert message in verdict.summary
    assert verdict.fix == pattern.fix


@pytest.mark.parametrize(
    ("torch", "other", "status"),
    [
        ("2.5.1", "torchvision==0.19.1", Status.WARN),
        ("2.5.1+cu124", "torchvision==0.20.1+cpu", Status.WARN),
        ("2.5.1+cu124", "torchvision==0.20.1+cu118", Status.WARN),
        ("2.5.1", "torchaudio==2.4.1", Status.WARN),
        ("2.5.1+cu124", "torchvision==0.20.1+cu121", Status.UNKNOWN),
        ("2.5.1", "torchvision==0.20.0", Status.UNKNOWN),
        ("1.13.1+cu117", "torchvision==0.14.1+cu117", Status.UNKNOWN),
        ("2.0.1", "torchvision==0.15.2", Status.UNKNOWN),
        ("2.11.0", "torchvision==0.26.0", Status.UNKNOWN),
        ("2.12.0", "torchaudio==2.11.0", Status.UNKNOWN),
        ("2.6.0a0+ecf3bae40a.nv25.01", "torchvision==0.20.0a0", Status.UNKNOWN),
        ("2.10.0.dev20250929+rocm7.0", "torchvision==0.24.0.dev20250929", Status.UNKNOWN),
        ("2.5.1", "torchmetrics==1.0.0", Status.UNKNOWN),
    ],
)
def test_torchvision_and_torchaudio_are_those_of_the_torch(
    torch: str, other: str, status: Status
) -> None:
    interpreter = Interpreter(
        path="p", chosen="c", importing=RAN, installed=(f"torch=={torch}", other)
    )
    judged = torch_libraries.LIBRARIES_MATCH.judge(
        interpreter=interpreter, libraries=UNREAD, torch=V2_15
    )
    assert judged.status is status
    assert bool(judged.commands) == (status is Status.WARN)
