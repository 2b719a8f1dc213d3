"""DRV001 and DRV002: every branch, and unknown."""

from __future__ import annotations

import pytest

from doctor._util.records import Ended, Unknown
from doctor.checks.driver.driver import ANSWERS, RUNS_TORCH_CUDA
from doctor.facts.machine import Cuda, Driver, Gpu, Host, Torch, TorchGpu
from doctor.facts.views import JobGpu, JobGpus
from doctor.judge.check import Owner, Status, Verdict

OK = Ended(how="ok", seconds=0.2)
HOST = Host(
    system="Linux",
    nvidia_devices=1,
    device_nodes=("/dev/nvidia0", "/dev/nvidiactl"),
    kernel_driver="580.95.05",
)
BARE = Host(system="Linux")
NOBODY = Unknown(reason="permission denied")
DEFAULTS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")


def error(detail: str, code: int | None = None) -> Ended:
    return Ended(how="error", detail=detail, code=code)


def answers(
    nvml: Ended = OK, cuda: Ended = OK, host: Host | Unknown = HOST, version: str | None = None
) -> Verdict:
    number = 13000 if version else None
    driver = Driver(nvml=nvml, cuda=cuda, version=version, cuda_version=number)
    return ANSWERS.judge(host=host, driver=driver)


def test_driver_that_answers_passes() -> None:
    verdict = answers(version="580.95.05")
    assert verdict.status is Status.PASS
    assert verdict.summary == "driver 580.95.05, CUDA 13.0: NVML and cuInit answer"


def test_driver_that_answers_needs_no_sight_of_the_hardware() -> None:
    assert answers(host=BARE).status is Status.PASS
    assert answers(host=NOBODY).status is Status.PASS


HANG = Ended(how="timeout", detail="no answer in 8 s inside nvmlInit", seconds=8.0)
LATE = Ended(how="timeout", detail="no answer in 8 s", seconds=8.0)
CRASH = Ended(how="signal", detail="SIGSEGV inside cuInit")
KILLED = Ended(how="signal", detail="SIGKILL")
NO_NVML = error("nvmlInit: NVML Shared Library Not Found (12)", 12)
NO_CUDA = error("dlopen: libcuda.so.1: cannot open shared object file")
CONTAINER = Host(system="Linux", nvidia_devices=1, container="docker")


@pytest.mark.parametrize(
    ("nvml", "cuda", "host", "owner", "said", "fix"),
    [
        (HANG, OK, HOST, Owner.MACHINE, "inside nvmlInit", "return the machine"),
        (HANG, HANG, BARE, Owner.MACHINE, "within 8 s", "return the machine"),
        (OK, CRASH, HOST, Owner.ENVIRONMENT, "SIGSEGV inside cuInit", "LD_LIBRARY_PATH"),
        (NO_NVML, NO_CUDA, HOST, Owner.ENVIRONMENT, "NVIDIA GPUs on the bus: 1", "--gpus all"),
        (OK, NO_CUDA, HOST, Owner.ENVIRONMENT, "libcuda.so.1", "compute,utility"),
        (error("no", 9), OK, HOST, Owner.ENVIRONMENT, "kernel module 580", "kernel module"),
        (error("no", 9), OK, NOBODY, Owner.ENVIRONMENT, "NVML: no", "kernel module"),
        (error("no", 4), OK, HOST, Owner.ENVIRONMENT, "NVML: no", "device nodes"),
        (error("no", 15), OK, HOST, Owner.MACHINE, "NVML: no", "UUID"),
        (error("no", 18), error("x", 803), HOST, Owner.MACHINE, "CUDA: x", "upgraded under"),
        (error("no", 999), OK, CONTAINER, Owner.ENVIRONMENT, "NVML: no", "daemon-reload"),
        (error("no", 999), OK, HOST, Owner.ENVIRONMENT, "NVML: no", "Look up the error"),
        (OK, error("x", 802), HOST, Owner.MACHINE, "CUDA: x", "fabric manager"),
        (OK, error("x", 803), HOST, Owner.ENVIRONMENT, "CUDA: x", "cuda-compat"),
        (OK, error("x", 804), HOST, Owner.ENVIRONMENT, "CUDA: x", "cuda-compat"),
        (OK, error("x", 34), HOST, Owner.ENVIRONMENT, "CUDA: x", "stub"),
        (OK, error("x", 100), HOST, Owner.ENVIRONMENT, "CUDA: x", "no device"),
        (OK, error("x", 719), HOST, Owner.ENVIRONMENT, "CUDA: x", "Look up the error"),
        (NO_NVML, NO_CUDA, BARE, Owner.JOB, "no NVIDIA GPU on the PCI bus", "--device cpu"),
        (error("no", 9), error("x", 100), BARE, Owner.JOB, "the job wants one", "--device cpu"),
    ],
)
def test_driver_that_does_not_answer_fails_with_its_remedy(
    nvml: Ended, cuda: Ended, host: Host | Unknown, owner: Owner, said: str, fix: str
) -> None:
    verdict = answers(nvml, cuda, host)
    assert verdict.status is Status.FAIL
    assert (verdict.owner or ANSWERS.owner) is owner
    assert said in verdict.summary
    assert fix in (verdict.fix or ANSWERS.fix)


@pytest.mark.parametrize("wanted", ["", "-1", "7"])
def test_gpus_hidden_by_the_environment_are_no_broken_driver(wanted: str) -> None:
    host = Host(system="Linux", nvidia_devices=1, env={"CUDA_VISIBLE_DEVICES": wanted})
    verdict = answers(cuda=error("no device", 100), host=host)
    assert verdict.status is Status.PASS
    assert "GPU001" in verdict.summary
    assert answers(cuda=error("x", 802), host=host).status is Status.FAIL


def test_cuda_that_works_without_nvml_is_warned_of() -> None:
    verdict = answers(NO_NVML)
    assert verdict.status is Status.WARN
    assert "health cannot be read" in verdict.summary


@pytest.mark.parametrize(
    "nvml", [LATE, KILLED, error("ModuleNotFoundError: No module named 'pynvml'")]
)
def test_driver_that_was_not_reached_is_unknown(nvml: Ended) -> None:
    """A slow disk, the memory killer and a missing package are not the driver's doing."""
    verdict = answers(nvml)
    assert verdict.status is Status.UNKNOWN
    assert nvml.detail in verdict.summary


def test_unread_driver_is_unknown_unless_there_is_no_hardware() -> None:
    unread = Unknown(reason="no more processes")
    verdict = ANSWERS.judge(host=HOST, driver=unread)
    assert (verdict.status, verdict.summary) == (Status.UNKNOWN, "no more processes")
    assert ANSWERS.judge(host=NOBODY, driver=unread).status is Status.UNKNOWN
    verdict = ANSWERS.judge(host=BARE, driver=unread)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.JOB)


def torch_gpu(capability: tuple[int, int], kernel: Ended | None = None) -> TorchGpu:
    return TorchGpu(
        index=0, uuid=None, name="GPU", capability=capability, memory_total=2**34, kernel=kernel
    )


def seen_by_nvml(*capabilities: tuple[int, int] | None) -> JobGpus:
    gpus = (
        Gpu(index=n, uuid=f"GPU-{n}", name="G", capability=c) for n, c in enumerate(capabilities)
    )
    return JobGpus(gpus=tuple(JobGpu(nvml=gpu) for gpu in gpus), by="environment")


def seen_by_torch(gpu: TorchGpu) -> JobGpus:
    return JobGpus(gpus=(JobGpu(torch=gpu),), by="torch")


FAILED = Cuda(started=error("CUDA driver initialization failed"))
CAME_UP = Cuda(started=OK, gpus=(torch_gpu((9, 0)),))
HOPPER = seen_by_nvml((9, 0))


def runs(
    driver: tuple[str | None, int | None],
    torch_cuda: str | None,
    cuda: Cuda | Unknown | None = FAILED,
    gpus: JobGpus | Unknown = HOPPER,
    archs: tuple[str, ...] = DEFAULTS,
) -> Verdict:
    version, number = driver
    return RUNS_TORCH_CUDA.judge(
        driver=Driver(nvml=OK, cuda=OK, version=version, cuda_version=number),
        torch=Torch(version="2.15.0", cuda=torch_cuda, archs=archs),
        cuda=cuda,
        job_gpus=gpus,
    )


@pytest.mark.parametrize(
    ("driver", "torch_cuda", "status"),
    [
        (("580.95.05", 13000), "12.8", Status.PASS),  # newer driver
        (("580.95.05", 13000), "13.0", Status.PASS),  # exactly enough
        (("580.95.05", 13000), "13.2", Status.PASS),  # minor-version compatibility
        (("535.104.05", 12020), "12.8", Status.PASS),
        (("525.60.13", 12000), "12.8", Status.PASS),
        (("575.51.03", 13000), "13.2", Status.FAIL),  # a compat libcuda on an older branch
        (("535.104.05", 12020), "13.0", Status.FAIL),  # a major version behind
        (("470.82.01", 11040), "12.1", Status.FAIL),
        ((None, 13000), "13.2", Status.PASS),  # NVML told no version, cuInit told its CUDA
    ],
)
def test_versions_are_compared_by_nvidias_rules(
    driver: tuple[str, int], torch_cuda: str, status: Status
) -> None:
    assert runs(driver, torch_cuda).status is status


def test_failure_names_both_versions_and_the_branch() -> None:
    verdict = runs(("535.104.05", 12020), "13.2")
    assert verdict.summary == (
        "driver 535.104.05, CUDA 12.2; torch 2.15.0 needs CUDA 13.2, "
        "which needs driver 580 or newer"
    )
    assert "cu128" in verdict.commands[0]
    assert "cu126" in runs(("535.1", 12020), "13.0", gpus=seen_by_nvml((6, 1))).commands[0]
    assert "a newer driver" in runs(("580.1", 13000), "14.0").summary


@pytest.mark.parametrize("cuda", [CAME_UP, Cuda(started=OK, gpus=(torch_gpu((9, 0), OK),))])
def test_context_that_came_up_overrides_the_table_and_both_are_named(cuda: Cuda) -> None:
    verdict = runs(("535.104.05", 12020), "13.0", cuda=cuda)
    assert verdict.status is Status.PASS
    assert "CUDA 12.2" in verdict.summary
    assert "needs CUDA 13.0" in verdict.summary
    assert "context came up" in verdict.summary


def test_torch_that_says_too_old_is_believed() -> None:
    said = "RuntimeError: The NVIDIA driver on your system is too old (found version 12020)."
    verdict = runs(("580.95.05", 13000), "13.0", cuda=Cuda(started=error(said)))
    assert verdict.status is Status.FAIL
    assert "found version 12020" in verdict.summary


OLDER = ("570.86.15", 12080)


def test_ptx_wants_a_driver_as_new_as_its_toolkit() -> None:
    verdict = runs(OLDER, "12.9", archs=("sm_80", "compute_80"))
    assert verdict.status is Status.WARN
    assert "PTX only" in verdict.summary
    assert runs(OLDER, "12.9", cuda=CAME_UP, archs=("compute_80",)).status is Status.WARN


def test_kernel_that_ran_overrides_the_ptx_rule() -> None:
    gpus = seen_by_torch(torch_gpu((9, 0), OK))
    verdict = runs(OLDER, "12.9", cuda=CAME_UP, gpus=gpus, archs=("compute_80",))
    assert verdict.status is Status.PASS
    assert "a kernel ran on GPU 0" in verdict.summary
    failed = seen_by_torch(torch_gpu((9, 0), error("no kernel image is available")))
    assert runs(OLDER, "12.9", gpus=failed, archs=("compute_80",)).status is Status.WARN


def test_worst_gpu_of_the_job_decides() -> None:
    gpus = seen_by_nvml((8, 0), (9, 0))
    assert runs(OLDER, "12.9", gpus=gpus, archs=("sm_80", "compute_80")).status is Status.WARN


@pytest.mark.parametrize("capability", [(7, 0), (9, 0)])
def test_build_without_code_is_left_to_the_build_check(capability: tuple[int, int]) -> None:
    verdict = runs(OLDER, "12.9", gpus=seen_by_nvml(capability), archs=("sm_100",))
    assert verdict.status is Status.SKIP
    assert "TOR003" in verdict.summary


def test_build_without_cuda_is_skipped() -> None:
    assert runs(OLDER, None).status is Status.SKIP


@pytest.mark.parametrize(
    ("gpus", "archs"),
    [
        (NOBODY, DEFAULTS),
        (seen_by_nvml(), DEFAULTS),
        (seen_by_nvml(None), DEFAULTS),
        (HOPPER, ()),
    ],
)
def test_unread_gpus_or_code_are_unknown(gpus: JobGpus | Unknown, archs: tuple[str, ...]) -> None:
    assert runs(OLDER, "12.9", gpus=gpus, archs=archs).status is Status.UNKNOWN


@pytest.mark.parametrize("cuda", [None, NOBODY, FAILED])
def test_unread_cuda_version_is_unknown(cuda: Cuda | Unknown | None) -> None:
    assert runs(("580.95.05", None), "13.0", cuda=cuda).status is Status.UNKNOWN
