"""DRV001 and DRV002: every branch, and unknown."""

from __future__ import annotations

from typing import Any

import pytest

from doctor._util.records import Ended, Unknown
from doctor.checks.driver import errors
from doctor.checks.driver.cuda_version import RUNS_TORCH_CUDA
from doctor.checks.driver.driver import RESPONDS
from doctor.checks.driver.errors import CUDA_REMEDIES
from doctor.errors.cause import Cause
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Torch, TorchGpu
from doctor.facts.machine import Driver, Gpu
from doctor.facts.views import JobGpu, JobGpus
from doctor.judge import known_errors as rows
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


def responds(
    nvml: Ended = OK, cuda: Ended = OK, host: Host | Unknown = HOST, version: str | None = None
) -> Verdict:
    number = 13000 if version else None
    driver = Driver(nvml=nvml, cuda=cuda, version=version, cuda_version=number)
    return RESPONDS.judge(host=host, driver=driver, gpus=None)


def test_driver_that_responds_passes() -> None:
    verdict = responds(version="580.95.05")
    assert verdict.status is Status.PASS
    assert "driver 580.95.05, CUDA 13.0" in verdict.summary


def test_driver_that_responds_does_not_depend_on_listed_hardware() -> None:
    assert responds(host=BARE).status is Status.PASS
    assert responds(host=NOBODY).status is Status.PASS


HANG = Ended(how="timeout", detail="no answer in 35 s inside nvmlInit", seconds=35.0)
LATE = Ended(how="timeout", detail="no answer in 35 s", seconds=35.0)
CUT = Ended(how="budget", detail="cut off by --budget inside cuInit", seconds=7.0)
CRASH = Ended(how="signal", detail="SIGSEGV inside cuInit")
KILLED = Ended(how="signal", detail="SIGKILL")
NO_NVML = error("nvmlInit: NVML Shared Library Not Found (12)", 12)
NO_CUDA = error("dlopen: libcuda.so.1: cannot open shared object file")
CONTAINER = Host(system="Linux", nvidia_devices=1, container="docker")


@pytest.mark.parametrize(
    ("nvml", "cuda", "blocked", "status", "text"),
    [
        (HANG, OK, None, Status.FAIL, "within 35 s"),  # of an older facts file
        (HANG, OK, "in the kernel", Status.FAIL, "state D without CPU time"),
        (OK, HANG, "twice", Status.FAIL, "in two starts"),
        (HANG, OK, "once", Status.WARN, "inside nvmlInit"),
        (OK, CUT, "once", Status.WARN, "inside cuInit"),
        (CUT, HANG, "in the kernel", Status.FAIL, "inside nvmlInit"),
        (OK, OK, "once", Status.WARN, "a second one did"),
        (OK, OK, None, Status.PASS, "respond"),
    ],
)
def test_a_call_that_does_not_return_is_a_failure_only_where_that_is_sure(
    nvml: Ended, cuda: Ended, blocked: Any, status: Status, text: str
) -> None:
    driver = Driver(nvml=nvml, cuda=cuda, blocked=blocked, first_start="no answer in 30 s")
    verdict = RESPONDS.judge(host=BARE, driver=driver, gpus=None)
    assert verdict.status is status
    assert text in verdict.summary.replace("cuInit", "nvmlInit" if nvml is CUT else "cuInit")
    assert (verdict.owner is Owner.MACHINE) is (status is Status.FAIL)


@pytest.mark.parametrize(
    ("nvml", "cuda", "host", "text", "remedy"),
    [
        (HANG, OK, HOST, "inside nvmlInit", errors.HANGS),
        (HANG, HANG, BARE, "within 35 s", errors.HANGS),
        (OK, CRASH, HOST, "SIGSEGV inside cuInit", errors.CRASHES),
        (NO_NVML, NO_CUDA, HOST, "NVIDIA GPUs on the bus: 1", rows.LIBRARY),
        (OK, NO_CUDA, HOST, "libcuda.so.1", rows.LIBRARY),
        (error("no", 9), OK, HOST, "kernel module 580", rows.NOT_LOADED),
        (error("no", 9), OK, NOBODY, "NVML: no", rows.NOT_LOADED),
        (error("no", 4), OK, HOST, "NVML: no", rows.FORBIDDEN),
        (error("no", 15), OK, HOST, "NVML: no", errors.LOST),
        (error("no", 18), error("x", 803), HOST, "CUDA: x", rows.MISMATCHED),
        (error("no", 999), OK, CONTAINER, "NVML: no", rows.IN_CONTAINER),
        (error("no", 999), OK, HOST, "NVML: no", errors.OTHER),
        (OK, error("x", 802), HOST, "CUDA: x", rows.FABRIC),
        (OK, error("x", 803), HOST, "CUDA: x", rows.COMPAT),
        (OK, error("x", 804), HOST, "CUDA: x", rows.COMPAT),
        (OK, error("x", 34), HOST, "CUDA: x", CUDA_REMEDIES[34]),
        (OK, error("x", 100), HOST, "CUDA: x", CUDA_REMEDIES[100]),
        (OK, error("x", 719), HOST, "CUDA: x", errors.OTHER),
        (NO_NVML, NO_CUDA, BARE, "PCI bus", errors.NO_HARDWARE),
        (error("no", 9), error("x", 100), BARE, "PCI bus", errors.NO_HARDWARE),
    ],
)
def test_driver_that_does_not_respond_fails_with_its_remedy(
    nvml: Ended, cuda: Ended, host: Host | Unknown, text: str, remedy: Cause
) -> None:
    verdict = responds(nvml, cuda, host)
    assert verdict.status is Status.FAIL
    assert text in verdict.summary
    assert (verdict.fix, verdict.owner) == (remedy.fix, remedy.owner)
    assert (verdict.commands, verdict.sources) == (remedy.commands, remedy.sources)


@pytest.mark.parametrize(
    ("code", "nodes", "remedy"),
    [
        (999, {"/dev/nvidia-uvm": "belongs to device 1, the driver's is 511"}, errors.NODES),
        (100, {"/dev/nvidia-uvm": "No such file or directory (2)"}, errors.NODES),
        (304, {"/dev/nvidiactl": "Operation not permitted (1)"}, errors.NODES),
        (999, {"/dev/nvidia-uvm": "Permission denied (13)"}, errors.DENIED_NODES),
        (802, {"/dev/nvidia-uvm": "No such file or directory (2)"}, rows.FABRIC),
        (999, {}, errors.STALE_UVM),
        (100, {}, CUDA_REMEDIES[100]),
        (999, None, errors.OTHER),
    ],
)
def test_a_device_node_is_named_only_if_it_was_observed_to_be_unusable(
    code: int, nodes: dict[str, str] | None, remedy: Cause
) -> None:
    driver = Driver(nvml=OK, cuda=error("x", code), unusable_nodes=nodes)
    verdict = RESPONDS.judge(host=HOST, driver=driver, gpus=None)
    assert (verdict.status, verdict.fix) == (Status.FAIL, remedy.fix)
    named = remedy in (errors.NODES, errors.DENIED_NODES)
    for node, why in (nodes or {}).items():
        assert (f"{node}: {why}" in verdict.summary) is named


def test_who_can_fix_a_driver_that_does_not_respond() -> None:
    machine = {errors.HANGS, errors.LOST, errors.MISMATCHED_HOST, rows.FABRIC}
    assert {remedy.owner for remedy in machine} == {Owner.MACHINE}
    assert errors.NO_HARDWARE.owner is Owner.JOB
    environment = {errors.CRASHES, rows.LIBRARY, rows.NOT_LOADED, rows.COMPAT, errors.OTHER}
    environment |= {
        errors.MISMATCHED_IMAGE,
        rows.MISMATCHED,
        rows.FORBIDDEN,
        rows.IN_CONTAINER,
        CUDA_REMEDIES[34],
        CUDA_REMEDIES[100],
    }
    assert {remedy.owner for remedy in environment} == {Owner.ENVIRONMENT}


@pytest.mark.parametrize("selection", ["", "-1", "7"])
def test_gpus_hidden_by_the_environment_do_not_fail_the_driver(selection: str) -> None:
    host = Host(system="Linux", nvidia_devices=1, env={"CUDA_VISIBLE_DEVICES": selection})
    verdict = responds(cuda=error("no device", 100), host=host)
    assert verdict.status is Status.PASS
    assert "GPU001" in verdict.summary
    assert responds(cuda=error("x", 802), host=host).status is Status.FAIL


@pytest.mark.parametrize(
    ("container", "library", "mounted", "owner"),
    [
        (None, "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159", False, Owner.MACHINE),
        (None, "/lib64/libnvidia-ml.so.580.159", None, Owner.MACHINE),
        (None, "/nix/store/x-nvidia/lib/libnvidia-ml.so.545.29", False, Owner.ENVIRONMENT),
        (None, "/opt/conda/lib/libnvidia-ml.so.1", False, Owner.ENVIRONMENT),
        ("docker", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159", True, Owner.MACHINE),
        ("docker", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.515.48", False, Owner.ENVIRONMENT),
        ("docker", None, None, Owner.ENVIRONMENT),
        (None, None, None, Owner.ENVIRONMENT),
    ],
)
def test_a_mismatch_is_the_machines_only_if_the_library_is_the_hosts(
    container: str | None, library: str | None, mounted: bool | None, owner: Owner
) -> None:
    host = Host(system="Linux", nvidia_devices=1, container=container)
    driver = Driver(nvml=error("no", 18), cuda=OK, nvml_library=library, nvml_mounted=mounted)
    verdict = RESPONDS.judge(host=host, driver=driver, gpus=None)
    assert (verdict.status, verdict.owner) == (Status.FAIL, owner)
    assert RESPONDS.judge(host=NOBODY, driver=driver, gpus=None).owner is Owner.ENVIRONMENT


@pytest.mark.parametrize(
    ("seconds", "persistence", "status"),
    [
        (7.0, False, Status.PASS),
        (13.0, False, Status.WARN),
        (13.0, True, Status.PASS),
        (13.0, None, Status.PASS),
    ],
)
def test_a_slow_start_without_persistence_mode_warns(
    seconds: float, persistence: bool | None, status: Status
) -> None:
    slow = Ended(how="ok", seconds=seconds)
    gpus = (Gpu(index=0, uuid="GPU-0", name="G", persistence=persistence),)
    verdict = RESPONDS.judge(host=HOST, driver=Driver(nvml=OK, cuda=slow), gpus=gpus)
    assert (verdict.status, verdict.seconds) == (status, seconds)
    unread = RESPONDS.judge(host=HOST, driver=Driver(nvml=OK, cuda=slow), gpus=NOBODY)
    assert unread.status is Status.PASS


def test_a_driver_that_answers_rules_out_that_there_is_no_hardware() -> None:
    """As on a Jetson, whose GPU is on no PCI bus."""
    verdict = responds(NO_NVML, host=BARE)
    assert verdict.status is Status.WARN
    assert responds(error("no", 999), host=BARE).owner is Owner.ENVIRONMENT


def test_a_bus_that_could_not_be_listed_is_not_counted() -> None:
    host = Host(system="Linux", pci_listed=False, device_nodes=("/dev/nvidia0",))
    assert "bus: not listed" in responds(error("no", 9), host=host).summary


def test_cuda_that_works_without_nvml_is_a_warning() -> None:
    verdict = responds(NO_NVML)
    assert verdict.status is Status.WARN
    assert verdict.fix == rows.LIBRARY.fix


@pytest.mark.parametrize(
    "nvml", [LATE, KILLED, error("ModuleNotFoundError: No module named 'pynvml'")]
)
def test_driver_that_was_not_reached_is_unknown(nvml: Ended) -> None:
    """A slow disk, the OOM killer and a missing package are not faults of the driver."""
    verdict = responds(nvml)
    assert verdict.status is Status.UNKNOWN
    assert nvml.detail in verdict.summary


def test_unread_driver_is_unknown_unless_there_is_no_hardware() -> None:
    unread = Unknown(reason="no more processes")
    verdict = RESPONDS.judge(host=HOST, driver=unread, gpus=None)
    assert (verdict.status, verdict.summary) == (Status.UNKNOWN, "no more processes")
    assert RESPONDS.judge(host=NOBODY, driver=unread, gpus=None).status is Status.UNKNOWN
    verdict = RESPONDS.judge(host=BARE, driver=unread, gpus=None)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.JOB)


def torch_gpu(capability: tuple[int, int], kernel: Ended | None = None) -> TorchGpu:
    return TorchGpu(
        index=0, uuid=None, name="GPU", capability=capability, memory_total=2**34, kernel=kernel
    )


def of_nvml(*capabilities: tuple[int, int] | None) -> JobGpus:
    gpus = (
        Gpu(index=n, uuid=f"GPU-{n}", name="G", capability=c) for n, c in enumerate(capabilities)
    )
    return JobGpus(gpus=tuple(JobGpu(nvml=gpu) for gpu in gpus), by="environment")


def of_torch(gpu: TorchGpu) -> JobGpus:
    return JobGpus(gpus=(JobGpu(torch=gpu),), by="torch")


FAILED = Cuda(started=error("CUDA driver initialization failed"))
STARTED = Cuda(started=OK, gpus=(torch_gpu((9, 0)),))
HOPPER = of_nvml((9, 0))


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
        host=HOST,
        interpreter=NOBODY,
    )


@pytest.mark.parametrize(
    ("driver", "torch_cuda", "status"),
    [
        (("580.95.05", 13000), "12.8", Status.PASS),  # newer driver
        (("580.95.05", 13000), "13.0", Status.PASS),  # exactly enough
        (("580.95.05", 13000), "13.2", Status.PASS),  # minor-version compatibility
        (("535.104.05", 12020), "12.8", Status.PASS),
        (("525.60.13", 12000), "12.8", Status.NOTE),  # kernels with large parameters
        (("525.60.13", 12000), "12.0", Status.PASS),
        (("530.30.02", 12010), "12.8", Status.PASS),
        (("575.51.03", 13000), "13.2", Status.FAIL),  # a compat libcuda on an older branch
        (("535.104.05", 12020), "13.0", Status.FAIL),  # a major version behind
        (("470.82.01", 11040), "12.1", Status.FAIL),
        ((None, 13000), "13.2", Status.PASS),  # no version from NVML, but CUDA from cuInit
    ],
)
def test_versions_are_compared_by_nvidias_rules(
    driver: tuple[str, int], torch_cuda: str, status: Status
) -> None:
    assert runs(driver, torch_cuda).status is status


def test_failure_names_both_versions_and_the_branch() -> None:
    verdict = runs(("535.104.05", 12020), "13.2")
    for part in ("driver 535.104.05", "CUDA 12.2", "torch 2.15.0", "CUDA 13.2", "driver 580"):
        assert part in verdict.summary
    assert "cu126" in verdict.commands[0]
    assert "cu126" in runs(("535.1", 12020), "13.0", gpus=of_nvml((6, 1))).commands[0]
    assert runs(("580.1", 13000), "14.0").status is Status.FAIL


@pytest.mark.parametrize("cuda", [STARTED, Cuda(started=OK, gpus=(torch_gpu((9, 0), OK),))])
def test_context_that_was_created_overrides_the_table_and_both_are_named(cuda: Cuda) -> None:
    verdict = runs(("535.104.05", 12020), "13.0", cuda=cuda)
    assert verdict.status is Status.PASS
    assert "CUDA 12.2" in verdict.summary
    assert "CUDA 13.0" in verdict.summary


def test_an_error_of_torch_overrides_the_table() -> None:
    message = "RuntimeError: The NVIDIA driver on your system is too old (found version 12020)."
    verdict = runs(("580.95.05", 13000), "13.0", cuda=Cuda(started=error(message)))
    assert verdict.status is Status.FAIL
    assert "found version 12020" in verdict.summary


OLDER = ("570.86.15", 12080)


def test_ptx_requires_a_driver_as_new_as_its_toolkit() -> None:
    verdict = runs(OLDER, "12.9", archs=("sm_80", "compute_80"))
    assert verdict.status is Status.WARN
    assert "PTX" in verdict.summary
    assert runs(OLDER, "12.9", cuda=STARTED, archs=("compute_80",)).status is Status.WARN


def test_kernel_that_ran_overrides_the_ptx_rule() -> None:
    gpus = of_torch(torch_gpu((9, 0), OK))
    verdict = runs(OLDER, "12.9", cuda=STARTED, gpus=gpus, archs=("compute_80",))
    assert verdict.status is Status.PASS
    assert "GPU 0" in verdict.summary
    failed = of_torch(torch_gpu((9, 0), error("no kernel image is available")))
    assert runs(OLDER, "12.9", gpus=failed, archs=("compute_80",)).status is Status.WARN


def test_worst_gpu_of_the_job_decides() -> None:
    gpus = of_nvml((8, 0), (9, 0))
    assert runs(OLDER, "12.9", gpus=gpus, archs=("sm_80", "compute_80")).status is Status.WARN


@pytest.mark.parametrize("capability", [(7, 0), (9, 0)])
def test_build_without_code_is_left_to_the_build_check(capability: tuple[int, int]) -> None:
    verdict = runs(OLDER, "12.9", gpus=of_nvml(capability), archs=("sm_100",))
    assert verdict.status is Status.SKIP
    assert "TOR003" in verdict.summary


def test_build_without_cuda_is_skipped() -> None:
    assert runs(OLDER, None).status is Status.SKIP


@pytest.mark.parametrize(
    ("gpus", "archs"),
    [
        (NOBODY, DEFAULTS),
        (of_nvml(), DEFAULTS),
        (of_nvml(None), DEFAULTS),
        (HOPPER, ()),
    ],
)
def test_unread_gpus_or_code_are_unknown(gpus: JobGpus | Unknown, archs: tuple[str, ...]) -> None:
    assert runs(OLDER, "12.9", gpus=gpus, archs=archs).status is Status.UNKNOWN


def test_gpus_that_are_alike_are_named_once() -> None:
    eight = runs(("535.104.05", 12020), "12.8", gpus=of_nvml(*[(9, 0)] * 8))
    assert eight.status is Status.PASS
    assert eight.summary.count("torch 2.15.0") == 1
    assert "8 GPUs" in eight.summary


def test_a_context_that_was_created_decides_where_the_version_is_unread() -> None:
    assert runs(("580.95.05", None), "13.0", cuda=STARTED).status is Status.PASS


@pytest.mark.parametrize("cuda", [None, NOBODY, FAILED])
def test_unread_cuda_version_is_unknown(cuda: Cuda | Unknown | None) -> None:
    assert runs(("580.95.05", None), "13.0", cuda=cuda).status is Status.UNKNOWN


UNDIVIDED = Gpu(index=0, uuid="GPU-a", name="NVIDIA H100 PCIe", mig=True, unread={})


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (UNDIVIDED, "mig -cgi"),
        (Gpu(index=0, uuid="GPU-a", name="NVIDIA H100 PCIe", mig=False, unread={}), "nvidia-uvm"),
        (Gpu(index=0, uuid="GPU-a", name="A", mig=True, unread={"slices": "denied"}), "nvidia-uvm"),
    ],
)
def test_a_gpu_in_mig_mode_without_an_instance_is_divided_first(gpu: Gpu, words: str) -> None:
    driver = Driver(nvml=OK, cuda=error("cuInit: no CUDA-capable device (100)", 100))
    verdict = RESPONDS.judge(host=HOST, driver=driver, gpus=(gpu,))
    assert verdict.status is Status.FAIL
    assert words in verdict.fix


@pytest.mark.parametrize(("sandbox", "words"), [("WSL2", "apt purge"), (None, "modprobe nvidia")])
def test_in_wsl_the_driver_is_that_of_windows(sandbox: str | None, words: str) -> None:
    host = Host(system="Linux", device_nodes=("/dev/dxg",), sandbox=sandbox)
    driver = Driver(nvml=error("Driver Not Loaded (9)", 9), cuda=error("no device (100)", 100))
    verdict = RESPONDS.judge(host=host, driver=driver, gpus=None)
    assert verdict.status is Status.FAIL
    assert words in " ".join((verdict.fix, *verdict.commands))
