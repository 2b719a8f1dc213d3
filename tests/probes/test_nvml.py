"""The driver's probes against real libraries that misbehave on request, judged to the end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from paths import FAKES
from shims import clock_stopped_until, wait_until

from doctor._util.records import Ended, Unknown
from doctor.checks.driver import CHECKS as DRIVER
from doctor.checks.gpu.device import CHECKS as GPU
from doctor.cli.guard import report_directory
from doctor.cli.options import ConfigFlags
from doctor.collect import gpus, training_gpus
from doctor.collect.before_torch import run_before_torch
from doctor.collect.child import Child, probe_command
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children
from doctor.collect.driver import FROM_NVML
from doctor.collect.guard_records import read_gpus
from doctor.facts.facts import Facts
from doctor.facts.load import Watched
from doctor.facts.machine import Driver, Gpu, Host, Interpreter
from doctor.facts.views import JobGpu, JobGpus, match_gpus
from doctor.job.job import Job, Target
from doctor.job.run_options import RunOptions
from doctor.judge.check import Owner, Status, Verdict

UUIDS = tuple(f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in (0, 1))
OK, NOBODY = Ended(how="ok"), Unknown(reason="not asked")
HOST = Host(system="Linux", nvidia_devices=2, device_nodes=("/dev/nvidia0", "/dev/nvidiactl"))
CHECKS = {check.code: check for check in (*DRIVER, *GPU)}

pytestmark = [
    pytest.mark.slow,  # starts processes
    pytest.mark.skipif(
        shutil.which("gcc") is None or sys.platform != "linux",
        reason="the fake driver is built with gcc, for Linux",
    ),
]

Ask = Callable[..., Answer]
HANG_SECONDS = 0.5
"""The deadline of a probe that already hangs."""


def sizes_of_the_binding() -> dict[str, int]:
    """The fake does not compile where its structs and the binding's differ in size."""
    import pynvml

    structs = {
        "MEMORY_V2": pynvml.c_nvmlMemory_v2_t,
        "PCI_INFO": pynvml.nvmlPciInfo_t,
        "PROCESS_INFO": pynvml.c_nvmlProcessInfo_t,
        "FIELD_VALUE": pynvml.c_nvmlFieldValue_t,
        "EVENT_DATA": pynvml.c_nvmlEventData_t,
        "CONF_COMPUTE": pynvml.c_nvmlConfComputeSystemState_t,
    }
    return {name: ctypes.sizeof(struct) for name, struct in structs.items()}


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders with the fake libraries: new, old, ancient, and one that has none."""
    top = tmp_path_factory.mktemp("drivers")
    sizes = [f"-D{name}={size}" for name, size in sizes_of_the_binding().items()]
    for name, flags in {"new": [], "old": ["-DOLD"], "ancient": ["-DANCIENT"]}.items():
        (top / name).mkdir()
        for source, library in (("nvml.c", "libnvidia-ml.so.1"), ("cuda.c", "libcuda.so.1")):
            line = ["gcc", "-Wall", "-Werror", "-shared", "-fPIC", *sizes, *flags]
            done = [*line, str(FAKES / source), "-o", str(top / name / library)]
            subprocess.run(done, check=True)
    (top / "none").mkdir()
    return top


@pytest.fixture
def ask(drivers: Path, tmp_path: Path) -> Ask:
    """Run a probe under a fake driver; if it `hangs`, wait for that before its deadline starts."""

    def run(probe: str = "nvml", kind: str = "new", hangs: bool = False, **fake: str) -> Answer:
        hanging = tmp_path / "hanging"
        hanging.unlink(missing_ok=True)
        child = begin(drivers / kind, probe, HANGING=str(hanging), **fake)
        try:
            if hangs:
                wait_until(hanging.exists)
            return child.wait(HANG_SECONDS if hangs else 100)
        finally:
            child.kill()

    return run


def begin(folder: Path, probe: str, *arguments: str, **fake: str) -> Child:
    env = {**os.environ, **{f"FAKE_{name}": value for name, value in fake.items()}}
    env["LD_LIBRARY_PATH"] = str(folder)
    return Child(probe_command(sys.executable, f"doctor_side/{probe}", *arguments), env)


def gpus_of(answer: Answer) -> tuple[Gpu, ...]:
    """The whole answer, or the notes that were sent before the end."""
    told = answer.answer or {}
    found = told.get("gpus", [note["gpu"] for note in answer.notes if "gpu" in note])
    return msgspec.convert(found, tuple[Gpu, ...])


def driver_of(nvml: Answer, cuda: Answer) -> Driver:
    told: dict[str, Any] = {}
    for part in (*nvml.notes, nvml.answer or {}):
        told |= part
    return Driver(
        nvml=nvml.ended,
        cuda=cuda.ended,
        version=told.get("version"),
        cuda_version=(cuda.answer or {}).get("driver_version"),
        **{name: told.get(name) for name in FROM_NVML},
    )


def judged(code: str, **facts: Any) -> Verdict:
    verdict = CHECKS[code].judge(**facts)
    assert isinstance(verdict, Verdict)
    return verdict


def driver_verdict(driver: Driver, gpus: tuple[Gpu, ...] | None = None) -> Verdict:
    return judged("DRV001", host=HOST, driver=driver, gpus=gpus)


def facts_for(code: str) -> dict[str, Any]:
    """What a check takes beside the GPUs: no steps ran."""
    return {"GPU002": {"host": HOST}, "GPU003": {"watched": None}}.get(code, {})


def job_gpus(answer: Answer) -> JobGpus:
    found = match_gpus(HOST, gpus_of(answer), None)
    assert isinstance(found, JobGpus)
    return found


def no_library(probe: str) -> bool:
    """Whether this machine has no such library of its own behind the fake's folder."""
    name = {"nvml": "libnvidia-ml.so.1", "cuda_init": "libcuda.so.1"}[probe]
    try:
        ctypes.CDLL(name)
    except OSError:
        return True
    return False


def test_healthy_gpus_are_read_in_full(ask: Ask) -> None:
    nvml, cuda = ask(), ask("cuda_init")
    assert nvml.ended.ok
    first, second = gpus_of(nvml)
    assert first == Gpu(
        index=0,
        uuid=UUIDS[0],
        name="NVIDIA H200",
        bus_id="00000000:19:00.0",
        capability=(9, 0),
        memory_total=143771 * 2**20,
        memory_used=4 * 2**20,
        compute_mode=0,
        persistence=True,
        processes=0,
        display_active=False,
        mig=False,
        ecc=True,
        corrected=0,
        uncorrected=0,
        remap_pending=False,
        remap_failed=False,
        recovery_action=0,
        unread={"retired_pages_pending": "Not Supported (3)"},
    )
    assert (second.index, second.uuid) == (1, UUIDS[1])
    assert {"nvmlInit", "nvmlDeviceGetUUID (GPU 1)"} <= {name for name, _ in nvml.stages}
    seen = driver_of(nvml, cuda)
    assert (seen.version, seen.cuda_version) == ("580.95.05", 13000)
    assert driver_verdict(seen).status is Status.PASS
    for code in ("GPU002", "GPU003"):
        assert judged(code, **facts_for(code), job_gpus=job_gpus(nvml)).status is Status.PASS


@pytest.mark.parametrize(
    ("fake", "code", "status", "said"),
    [
        ({"REMAP_FAILED": "1"}, "GPU003", Status.FAIL, "row remap failed"),
        ({"UNCORRECTED": "3"}, "GPU003", Status.FAIL, "3 uncorrected"),
        ({"ACTION": "2"}, "GPU003", Status.FAIL, "reboot the node"),
        ({"REMAP_PENDING": "1"}, "GPU003", Status.WARN, "row remap pending"),
        ({"CORRECTED": "50000001"}, "GPU003", Status.WARN, "50,000,001 corrected"),
        ({"USED_MIB": "3000"}, "GPU002", Status.WARN, "2.9 GiB"),
        ({"USED_MIB": "90000", "PROCESSES": "2"}, "GPU002", Status.FAIL, "2 compute processes"),
        ({"USED_MIB": "90000", "DISPLAY": "1"}, "GPU002", Status.WARN, "desktop"),
    ],
)
def test_trouble_is_read_and_judged(
    ask: Ask, fake: dict[str, str], code: str, status: Status, said: str
) -> None:
    verdict = judged(code, **facts_for(code), job_gpus=job_gpus(ask(**fake)))
    assert verdict.status is status
    assert said in verdict.summary


def test_a_broken_gpu_is_named_by_its_uuid(ask: Ask) -> None:
    verdict = judged("GPU003", watched=None, job_gpus=job_gpus(ask(REMAP_FAILED="1")))
    assert UUIDS[0] in verdict.summary
    assert UUIDS[1] not in verdict.summary


@pytest.mark.parametrize("kind", ["old", "ancient"])
def test_older_driver_leaves_reasons_and_no_failure(ask: Ask, kind: str) -> None:
    nvml = ask(kind=kind)
    assert nvml.ended.ok
    assert nvml.answer
    assert nvml.answer["cuda_version"] == 13000
    gpu = gpus_of(nvml)[0]
    assert gpu.recovery_action is None
    assert gpu.unread["recovery_action"] == "Not Supported (3)"
    if kind == "ancient":
        assert gpu.unread["remap_failed"] == "Function Not Found (13)"
        assert gpu.memory_used == 600 * 2**20
        assert "reserve" in gpu.unread["memory_reserved"]
        assert gpu.processes == 0
    verdict = judged("GPU003", watched=None, job_gpus=job_gpus(nvml))
    assert verdict.status is Status.PASS
    assert "not readable: " in verdict.summary
    assert "recovery action (Not Supported (3))" in verdict.summary


def test_nothing_readable_is_unknown(ask: Ask) -> None:
    refused = "nvmlDeviceGetRemappedRows:3,nvmlDeviceGetTotalEccErrors:3,nvmlDeviceGetFieldValues:4"
    verdict = judged("GPU003", watched=None, job_gpus=job_gpus(ask(FAIL=refused)))
    assert verdict.status is Status.UNKNOWN
    assert "recovery action (Insufficient Permissions (4))" in verdict.summary


def test_every_query_may_be_refused(ask: Ask) -> None:
    names = {
        "nvmlSystemGetDriverVersion",
        "nvmlSystemGetCudaDriverVersion",
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetPersistenceMode",
        "nvmlSystemGetConfComputeState",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetDisplayActive",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetRetiredPagesPendingStatus",
        "nvmlDeviceGetFieldValues",
    }
    nvml = ask(FAIL=",".join(f"{name}:888" for name in names))
    assert nvml.ended.ok
    assert nvml.answer
    assert nvml.answer["version"] is None
    assert nvml.answer["cuda_version"] is None
    for gpu in gpus_of(nvml):
        told = {name for name in gpu.__struct_fields__ if getattr(gpu, name) not in (None, "", ())}
        assert told == {"index", "unread"}
        assert set(gpu.unread.values()) == {"An error that no binding knows (888)"}


@pytest.mark.parametrize(
    ("code", "said", "owner"),
    [
        (9, "Driver Not Loaded (9)", Owner.ENVIRONMENT),
        (18, "the NVML library is version 13.580.159", Owner.ENVIRONMENT),
        (999, "Unknown Error (999)", Owner.ENVIRONMENT),
        (15, "GPU is lost (15)", Owner.MACHINE),
    ],
)
def test_error_of_the_start_is_read_and_judged(
    ask: Ask, code: int, said: str, owner: Owner
) -> None:
    nvml = ask(FAIL=f"nvmlInitWithFlags:{code}")
    assert nvml.ended.code == code
    verdict = driver_verdict(driver_of(nvml, ask("cuda_init")))
    assert verdict.status is Status.FAIL
    assert said in verdict.summary
    assert (verdict.owner or Owner.ENVIRONMENT) is owner


def test_the_library_that_does_not_match_is_located(ask: Ask, drivers: Path) -> None:
    """Here it is the fake's, which no host mounts: the image's fault, not the machine's."""
    driver = driver_of(ask(FAIL="nvmlInitWithFlags:18"), ask("cuda_init"))
    assert driver.nvml_library == str((drivers / "new" / "libnvidia-ml.so.1").resolve())
    assert driver.nvml_mounted is False


def test_a_slow_start_without_persistence_mode_is_a_warning(ask: Ask) -> None:
    nvml, cuda = ask(PERSISTENCE="0", CONFIDENTIAL="1"), ask("cuda_init")
    driver = driver_of(nvml, cuda)
    assert driver.confidential is True
    assert [gpu.persistence for gpu in gpus_of(nvml)] == [False, False]
    assert driver_verdict(driver, gpus_of(nvml)).status is Status.PASS
    slow = msgspec.structs.replace(driver, cuda=Ended(how="ok", seconds=13.1))
    assert driver_verdict(slow, gpus_of(nvml)).status is Status.WARN
    assert driver_verdict(slow, gpus_of(ask(PERSISTENCE="1"))).status is Status.PASS


def test_a_gpu_without_permission_is_not_counted(ask: Ask) -> None:
    """As under Slurm: NVML counts the GPUs of the node, the cgroup allows some."""
    nvml = ask(FAIL="nvmlDeviceGetHandleByIndex_v2@0:4")
    assert [gpu.forbidden for gpu in gpus_of(nvml)] == [True, False]
    (gpu,) = job_gpus(nvml).gpus
    assert gpu.nvml
    assert gpu.nvml.uuid == UUIDS[1]


def test_missing_libraries_are_named(ask: Ask) -> None:
    if not (no_library("nvml") and no_library("cuda_init")):
        pytest.skip("this machine has a real driver, which stands in for the missing one")
    nvml, cuda = ask(kind="none"), ask("cuda_init", "none")
    assert nvml.ended.code == 12
    assert cuda.ended.code is None
    assert "libcuda.so.1" in cuda.ended.detail
    verdict = driver_verdict(driver_of(nvml, cuda))
    assert verdict.status is Status.FAIL
    assert "NVML Shared Library Not Found (12)" in verdict.summary


@pytest.mark.parametrize("code", [15, 16])
def test_lost_gpu_keeps_the_others(ask: Ask, code: int) -> None:
    nvml = ask(FAIL=f"nvmlDeviceGetHandleByIndex_v2@0:{code}")
    lost, healthy = gpus_of(nvml)
    assert f"({code})" in (lost.lost or "")
    assert (lost.uuid, lost.memory_total) == ("", None)
    assert healthy.uuid == UUIDS[1]
    verdict = judged(
        "GPU001",
        job=Job(),
        host=HOST,
        gpus=(lost, healthy),
        cuda=None,
        job_gpus=job_gpus(nvml),
        target=Target("nvidia", ""),
    )
    assert verdict.status is Status.FAIL
    assert verdict.owner is Owner.MACHINE


def test_gpu_lost_in_the_middle_is_asked_no_further(ask: Ask) -> None:
    nvml = ask(FAIL="nvmlDeviceGetComputeMode@1:15")
    gpu = gpus_of(nvml)[1]
    assert (gpu.uuid, gpu.lost) == (UUIDS[1], "GPU is lost (15)")
    assert "nvmlDeviceGetEccMode (GPU 1)" not in [name for name, _ in nvml.stages]
    assert judged("GPU003", watched=None, job_gpus=job_gpus(nvml)).status is Status.FAIL


def test_mig_slices_have_their_own_memory(ask: Ask) -> None:
    nvml = ask(MIG="1")
    gpu = gpus_of(nvml)[0]
    assert gpu.mig is True
    assert [part.uuid[:5] for part in gpu.slices] == ["MIG-1", "MIG-2"]
    assert gpu.slices[0].memory_total == 143771 * 2**20 // 8
    assert gpu.unread["remap_failed"] == "Not Supported (3)"
    found = match_gpus(
        msgspec.structs.replace(HOST, env={"CUDA_VISIBLE_DEVICES": gpu.slices[1].uuid}),
        gpus_of(nvml),
        None,
    )
    assert isinstance(found, JobGpus)
    assert found.gpus[0].memory_used == 4 * 2**20
    assert judged("GPU002", host=HOST, job_gpus=found).status is Status.PASS


def test_hang_in_a_query_keeps_the_gpus_before_it(ask: Ask) -> None:
    nvml = ask(HANG="nvmlDeviceGetEccMode@1", hangs=True)
    assert nvml.ended.how == "timeout"
    assert "inside nvmlDeviceGetEccMode (GPU 1)" in nvml.ended.detail
    assert [gpu.uuid for gpu in gpus_of(nvml)] == [UUIDS[0]]
    seen = driver_of(nvml, ask("cuda_init"))
    assert seen.version == "580.95.05"
    verdict = driver_verdict(seen)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.MACHINE)
    assert "nvmlDeviceGetEccMode (GPU 1)" in verdict.summary


@pytest.mark.parametrize(
    ("probe", "fake", "call"),
    [
        ("nvml", {"LOAD_SLEEP": "1"}, "nvmlInit"),
        ("nvml", {"HANG": "nvmlInitWithFlags"}, "nvmlInit"),
        ("cuda_init", {"CUDA_LOAD_SLEEP": "1"}, "dlopen libcuda.so.1"),
        ("cuda_init", {"CUDA_HANG": "1"}, "cuInit"),
    ],
)
def test_hang_at_the_start_names_the_call(
    ask: Ask, probe: str, fake: dict[str, str], call: str
) -> None:
    stuck = ask(probe, hangs=True, **fake)
    assert stuck.ended.how == "timeout"
    well = ask("cuda_init" if probe == "nvml" else "nvml")
    seen = driver_of(stuck, well) if probe == "nvml" else driver_of(well, stuck)
    verdict = driver_verdict(seen)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.MACHINE)
    assert f"inside {call}" in verdict.summary


def test_crash_in_a_query_is_a_signal(ask: Ask) -> None:
    nvml = ask(CRASH="nvmlDeviceGetRemappedRows@1")
    assert nvml.ended.detail == "SIGSEGV inside nvmlDeviceGetRemappedRows (GPU 1)"
    assert len(gpus_of(nvml)) == 1
    verdict = driver_verdict(driver_of(nvml, ask("cuda_init")))
    assert verdict.status is Status.FAIL
    assert "SIGSEGV" in verdict.summary


@pytest.mark.parametrize(
    ("code", "said", "owner"),
    [
        (802, "CUDA_ERROR_SYSTEM_NOT_READY (802), system not yet initialized", Owner.MACHINE),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", Owner.ENVIRONMENT),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)", Owner.ENVIRONMENT),
        (100, "CUDA_ERROR_NO_DEVICE (100)", Owner.ENVIRONMENT),
        (719, "CUDA_ERROR_LAUNCH_FAILED (719)", Owner.ENVIRONMENT),
        (7777, "CUDA error (7777)", Owner.ENVIRONMENT),
    ],
)
def test_cuda_error_is_read_and_judged(ask: Ask, code: int, said: str, owner: Owner) -> None:
    cuda = ask("cuda_init", CUDA_INIT=str(code))
    assert cuda.ended.code == code
    assert cuda.ended.detail == f"cuInit: {said}"
    verdict = driver_verdict(driver_of(ask(), cuda))
    assert (verdict.status, verdict.owner) == (Status.FAIL, owner)
    assert said in verdict.summary


def root_with(directory: Path, devices: str, *nodes: str) -> Path:
    """A root directory: /proc/devices, and device nodes that are links to /dev/null."""
    (directory / "proc").mkdir(parents=True)
    (directory / "dev").mkdir()
    (directory / "proc/devices").write_text(devices)
    for node in nodes:
        (directory / "dev" / node).symlink_to("/dev/null")
    return directory


NULL = "Character devices:\n  1 nvidia-uvm\n195 nvidia\n"
"""The UVM module has the major number of /dev/null here."""


@pytest.mark.parametrize(
    ("devices", "nodes", "unusable"),
    [
        (NULL, ("nvidia0", "nvidiactl", "nvidia-uvm"), {}),
        (NULL, ("nvidia0", "nvidiactl"), {"/dev/nvidia-uvm": "No such file or directory (2)"}),
        (
            "Character devices:\n234 nvidia-uvm\n",
            ("nvidia0", "nvidiactl", "nvidia-uvm"),
            {"/dev/nvidia-uvm": "belongs to device 1, the driver's is 234"},
        ),
        ("", ("nvidia0", "nvidiactl", "nvidia-uvm"), {}),
        ("", ("dxg",), None),
    ],
)
def test_an_error_of_cuinit_comes_with_the_nodes_that_cannot_be_used(
    drivers: Path, tmp_path: Path, devices: str, nodes: tuple[str, ...],
    unusable: dict[str, str] | None,
) -> None:  # fmt: skip
    root = root_with(tmp_path / "root", devices, *nodes)
    child = begin(drivers / "new", "cuda_init", str(root), CUDA_INIT="999")
    try:
        answer = child.wait(100)
    finally:
        child.kill()
    assert answer.ended.code == 999
    assert answer.notes == ({"unusable_nodes": unusable},)


def test_cuda_answers_with_version_and_count(ask: Ask) -> None:
    assert ask("cuda_init").answer == {"driver_version": 13000, "devices": 2}
    counted = ask("cuda_init", CUDA_COUNT="3")
    assert (counted.ended.code, counted.notes) == (3, ({"driver_version": 13000},))
    assert ask("cuda_init", CUDA_CRASH="1").ended.detail == "SIGSEGV inside cuInit"


def watch(folder: Path, *uuids: str, **fake: str) -> tuple[Watched, ...]:
    """The records of a watch that has sampled every GPU at least once."""
    with tempfile.TemporaryDirectory() as directory:
        sampled = Path(directory, "sampled")
        child = begin(folder, "watch", "0.05", *uuids, SAMPLED=str(sampled), **fake)
        try:
            assert child.wait(100).answer == {"ready": True}
            wait_until(sampled.exists)  # a request to stop is read after all GPUs were sampled
            child.send({"stop": True})
            answer = child.wait(100)
        finally:
            child.kill()
    assert answer.ended.ok, answer.ended
    assert answer.answer
    return msgspec.convert(answer.answer["watched"], tuple[Watched, ...])


@pytest.mark.parametrize("kind", ["new", "old"])
@pytest.mark.parametrize(
    ("reasons", "status"),
    [(0x1, Status.PASS), (0x4, Status.PASS), (0x44, Status.WARN), (0x8 | 0x80, Status.WARN)],
)
def test_clocks_are_sampled_and_judged(
    drivers: Path, ask: Ask, kind: str, reasons: int, status: Status
) -> None:
    seen = watch(drivers / kind, *UUIDS, REASONS=str(reasons))
    assert [gpu.mask for gpu in seen] == [reasons, reasons]
    assert all(gpu.samples >= 1 for gpu in seen)
    verdict = judged("GPU004", watched=seen, job_gpus=job_gpus(ask()))
    assert verdict.status is status
    assert [gpu.temperature for gpu in seen] == [71, 71]


def test_the_temperature_comes_from_the_newer_call_where_the_older_is_gone(drivers: Path) -> None:
    gone = "nvmlDeviceGetTemperature:13"
    assert [gpu.temperature for gpu in watch(drivers / "new", UUIDS[0], FAIL=gone)] == [72]
    (old,) = watch(drivers / "old", UUIDS[0], FAIL=gone)
    assert (old.temperature, "(13)" in old.unread["temperature"]) == (None, True)


def test_a_quiet_run_is_recorded_in_full(drivers: Path) -> None:
    seen = watch(drivers / "new", UUIDS[0], NVLINKS="1111")
    assert seen[0].samples >= 1
    assert seen[0] == Watched(
        uuid=UUIDS[0],
        samples=seen[0].samples,
        mask=1,
        temperature=71,
        uncorrected=0,
        corrected=0,
        remapped_rows=0,
        pcie_replays=0,
        nvlink_errors=0,
        nvlinks_down=0,
        xids=(),
        link=(5, 16),
        link_max=(5, 16),
    )


@pytest.mark.parametrize(
    ("fake", "field", "value", "status"),
    [
        ({"MORE_UNCORRECTED": "2", "UNCORRECTED": "0"}, "uncorrected", 2, Status.FAIL),
        ({"MORE_CORRECTED": "7", "CORRECTED": "100"}, "corrected", 7, Status.PASS),
        ({"MORE_REMAPPED": "1"}, "remapped_rows", 1, Status.FAIL),
        ({"XIDS": "79"}, "xids", (79,), Status.FAIL),
        ({"XIDS": "13,63"}, "xids", (13, 63), Status.WARN),
        ({"XIDS": "13,43"}, "xids", (13, 43), Status.PASS),
        ({"XIDS": ",".join(["31"] * 500)}, "xids", (31,) * 64, Status.PASS),
    ],
)
def test_what_comes_during_the_run_is_counted_and_judged(
    drivers: Path, ask: Ask, fake: dict[str, str], field: str, value: Any, status: Status
) -> None:
    seen = watch(drivers / "new", *UUIDS, **fake)
    assert getattr(seen[0], field) == value
    assert getattr(seen[1], field) in (0, ())
    assert judged("GPU003", watched=seen, job_gpus=job_gpus(ask())).status is status


def test_links_are_read_under_load(drivers: Path) -> None:
    fake = {"NVLINKS": "1101", "MORE_NVLINK_ERRORS": "3", "MORE_REPLAYS": "9"}
    seen = watch(drivers / "new", *UUIDS, LINK_GEN="4", LINK_WIDTH="8", **fake)
    assert (seen[0].nvlinks_down, seen[0].nvlink_errors, seen[0].pcie_replays) == (1, 3, 9)
    assert (seen[0].link, seen[0].link_max) == ((4, 8), (5, 16))


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        ({}, "Not Supported (3)"),
        ({"NVLINKS": "0000"}, "LookupError: no NVLink is active"),
    ],
)
def test_a_gpu_without_active_links_has_none_down(
    drivers: Path, fake: dict[str, str], reason: str
) -> None:
    seen = watch(drivers / "new", UUIDS[0], **fake)[0]
    assert (seen.nvlinks_down, seen.nvlink_errors) == (None, None)
    assert seen.unread == {"nvlinks_down": reason, "nvlink_errors": reason}


def test_a_counter_that_cannot_be_read_is_named_and_not_counted_as_fine(
    drivers: Path, ask: Ask
) -> None:
    refused = ",".join(
        (
            "nvmlDeviceGetTotalEccErrors:3",
            "nvmlDeviceGetRemappedRows:4",
            "nvmlDeviceRegisterEvents:4",
            "nvmlDeviceGetTemperature:3",
            "nvmlDeviceGetTemperatureV:13",
            "nvmlDeviceGetCurrPcieLinkGeneration:3",
            "nvmlDeviceGetPcieReplayCounter:13",
        )
    )
    seen = watch(drivers / "new", UUIDS[0], FAIL=refused)[0]
    assert seen.samples >= 1
    for field in ("uncorrected", "corrected", "remapped_rows", "xids", "temperature", "link"):
        assert getattr(seen, field) is None
        assert seen.unread[field]
    verdict = judged("GPU003", watched=(seen,), job_gpus=job_gpus(ask()))
    assert verdict.status is Status.PASS
    assert "Xid events during the run (Insufficient Permissions (4))" in verdict.summary
    assert "uncorrected errors during the run (Not Supported (3))" in verdict.summary


def test_an_old_driver_without_the_event_call_is_told(drivers: Path) -> None:
    seen = watch(drivers / "ancient", UUIDS[0], XIDS="79")[0]
    assert seen.xids is None
    assert "Function Not Found (13)" in seen.unread["xids"]


def test_a_run_of_a_slice_is_that_of_its_gpu(drivers: Path) -> None:
    part = "MIG-10000000-1111-2222-3333-444444444444"
    seen = watch(drivers / "new", part, UUIDS[0], REASONS="8", XIDS="48")
    assert [(gpu.mask, gpu.xids) for gpu in seen] == [(8, (48,)), (8, (48,))]


@pytest.mark.parametrize(("code", "status"), [(3, Status.SKIP), (888, Status.UNKNOWN)])
def test_clocks_that_cannot_be_read(drivers: Path, ask: Ask, code: int, status: Status) -> None:
    """What a GPU does not have is skipped; a reading that failed is unknown."""
    refused = ",".join(
        f"nvmlDeviceGetCurrentClocks{name}Reasons:{code}" for name in ("Event", "Throttle")
    )
    seen = watch(drivers / "new", *UUIDS, "GPU-absent", "", FAIL=refused)
    assert [gpu.samples for gpu in seen] == [0, 0, 0, 0]
    assert "Not Found (6)" in seen[2].unread["samples"]
    verdict = judged("GPU004", watched=seen, job_gpus=job_gpus(ask()))
    assert verdict.status is status


def test_a_request_to_stop_that_is_already_there_is_obeyed_before_a_sample(drivers: Path) -> None:
    child = begin(drivers / "new", "watch", "0.05", UUIDS[0])
    try:
        child.send({"stop": True})
        assert child.wait(100).answer == {"ready": True}
        answer = child.wait(100).answer
        assert answer
        assert answer["watched"][0]["samples"] == 0
    finally:
        child.kill()


def test_a_watch_ends_with_its_stdin(drivers: Path) -> None:
    child = begin(drivers / "new", "watch", "0.05", UUIDS[0])
    try:
        assert child.wait(100).answer == {"ready": True}
        child.close_stdin()
        assert child.wait(100).ended.detail == "exit status 0 and no message"
    finally:
        child.kill()


def test_a_counter_that_hangs_is_named(drivers: Path, tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    fake = {"HANG": "nvmlDeviceGetRemappedRows", "HANGING": str(hanging)}
    child = begin(drivers / "new", "watch", "0.05", UUIDS[0], **fake)
    try:
        wait_until(hanging.exists)
        assert "inside counters before" in child.wait(HANG_SECONDS).ended.detail
    finally:
        child.kill()


def test_a_run_is_watched_from_its_start_to_its_end(
    drivers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    monkeypatch.setenv("FAKE_XIDS", "95")
    monkeypatch.setenv("FAKE_SAMPLED", str(tmp_path / "sampled"))
    run = gpus.Watch(Children(), UUIDS)
    run.wait_until_ready()
    wait_until((tmp_path / "sampled").exists)
    seen = run.stop(NOBODY)
    assert isinstance(seen, tuple)
    assert [(gpu.uuid, gpu.xids) for gpu in seen] == [(UUIDS[0], (95,)), (UUIDS[1], ())]


@pytest.mark.parametrize(
    ("job", "options"),
    [(Job(device="cpu"), RunOptions()), (Job(), RunOptions(smoke=False, quick=True))],
    ids=["cpu", "nothing runs"],
)
def test_nothing_is_watched_where_nothing_runs_on_a_gpu(
    ask: Ask, job: Job, options: RunOptions
) -> None:
    driver = None if job.device == "cpu" else Driver(nvml=OK, cuda=OK)
    listed = None if job.device == "cpu" else gpus_of(ask())
    watch, copies = run_before_torch(Children(), job, options, HOST, driver, listed)
    assert (watch.stop(NOBODY), copies) == (None, None)


def test_of_all_watched_gpus_those_of_the_job_are_recorded(
    drivers: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA's order need not be NVML's, so which ones they are is known later."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    listed = gpus_of(ask())
    driver, job = Driver(nvml=OK, cuda=OK), Job(gpus=1)
    watch, copies = run_before_torch(Children(), job, RunOptions(), HOST, driver, listed)
    last = JobGpus(gpus=(JobGpu(nvml=listed[-1]),), by="torch")
    seen = watch.stop(last)
    assert copies is None
    assert isinstance(seen, tuple)
    assert [gpu.uuid for gpu in seen] == [listed[-1].uuid]


@pytest.mark.parametrize(
    ("call", "where"),
    [
        ("nvmlInitWithFlags", "nvmlInit"),
        ("nvmlDeviceGetRemappedRows", "counters before"),
    ],
)
def test_a_watch_that_hangs_is_unknown_and_named(
    drivers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, where: str
) -> None:
    hanging = tmp_path / "hanging"
    monkeypatch.setattr(gpus, "WATCH_SECONDS", HANG_SECONDS)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    monkeypatch.setenv("FAKE_HANG", call)
    monkeypatch.setenv("FAKE_HANGING", str(hanging))
    with clock_stopped_until(hanging.exists):
        seen = gpus.Watch(Children(), UUIDS).stop(NOBODY)
    assert isinstance(seen, Unknown)
    assert f"inside {where}" in seen.reason


def test_facts_of_a_fake_machine_survive_their_file(ask: Ask) -> None:
    nvml, cuda = ask(FAIL="nvmlDeviceGetHandleByIndex_v2@0:15"), ask("cuda_init", CUDA_INIT="802")
    nobody = Unknown(reason="not asked")
    facts = Facts(
        job=Job(),
        host=HOST,
        driver=driver_of(nvml, cuda),
        gpus=gpus_of(nvml),
        interpreter=Interpreter(path="python", chosen="test", importing=cuda.ended),
        torch=nobody,
        places=nobody,
    )
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts


@pytest.mark.parametrize(
    ("fake", "statuses"),
    [
        ({"REASONS": "1"}, {"GPU003": Status.PASS, "GPU004": Status.PASS}),
        ({"REASONS": "64"}, {"GPU003": Status.PASS, "GPU004": Status.WARN}),
        ({"XIDS": "79"}, {"GPU003": Status.FAIL, "GPU004": Status.PASS}),
        (
            {
                "FAIL": "nvmlDeviceGetCurrentClocksThrottleReasons:999,"
                "nvmlDeviceGetCurrentClocksEventReasons:999"
            },
            {"GPU003": Status.PASS, "GPU004": Status.UNKNOWN},
        ),
    ],
)
def test_the_gpus_of_a_guarded_training_are_in_its_report(
    drivers: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fake: dict[str, str],
    statuses: dict[str, Status],
) -> None:
    sampled = tmp_path / "sampled"
    monkeypatch.setattr(training_gpus, "SAMPLE_SECONDS", 0.05)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    for name, value in {"SAMPLED": str(sampled), **fake}.items():
        monkeypatch.setenv(f"FAKE_{name}", value)
    sampler = training_gpus.GpuSampler()
    if "FAIL" not in fake:
        wait_until(sampled.exists)
    else:
        sampler._listed.result(100)
    (tmp_path / "gpus.json").write_bytes(training_gpus.encode(sampler.stop()))
    report = report_directory(tmp_path, {}, ConfigFlags(no_config=True), fail_on="fail")
    of_gpus = {f.check.code: f.status for f in report.findings if f.check.family == "GPU"}
    assert of_gpus == statuses


@contextlib.contextmanager
def waiting(**env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process, and its child, that wait for the end of their stdin."""
    line = "import subprocess, sys; subprocess.run(['cat'])"
    process = subprocess.Popen([sys.executable, "-c", line], stdin=subprocess.PIPE, env=env)
    try:
        yield process
    finally:
        process.communicate(timeout=60)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("visible", [True, False])
def test_other_processes_on_the_gpus_of_a_guarded_training(
    drivers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, visible: bool
) -> None:
    """`visible`: NVML's pids are those of this namespace, so the training is among them."""
    listed, mark = tmp_path / "listed", f'"{tmp_path}"'
    monkeypatch.setattr(training_gpus, "SAMPLE_SECONDS", 0.02)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    with waiting(DOCTOR_GUARD=f'{{"out": {mark}}}') as training, waiting() as other:
        wait_until(lambda: bool(children_of(training.pid)))
        own = [training.pid, *children_of(training.pid)] if visible else []
        monkeypatch.setenv("FAKE_PIDS", ",".join(map(str, [other.pid, *own])))
        monkeypatch.setenv("FAKE_LISTED", str(listed))
        sampler = training_gpus.GpuSampler(mark)
        sampler._listed.result(100)
        listed.unlink()
        wait_until(listed.exists)
        watched = sampler.stop().watched
    assert isinstance(watched, tuple)
    for gpu in watched:
        assert gpu.use is not None
        assert bool(gpu.use.with_training) is visible
        others = [(each.pid, each.memory) for each in gpu.use.others]
        assert others == ([(other.pid, 2 << 30)] if visible else [])


@pytest.mark.parametrize(("kind", "hang"), [("none", ""), ("new", "nvmlDeviceGetEccMode")])
def test_a_training_without_gpus_or_with_a_hanging_driver_ends_at_once(
    drivers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, hang: str
) -> None:
    hanging = tmp_path / "hanging"
    if hang:
        monkeypatch.setattr(training_gpus, "END_SECONDS", HANG_SECONDS)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / kind))
    monkeypatch.setenv("FAKE_HANG", hang)
    monkeypatch.setenv("FAKE_HANGING", str(hanging))
    sampler = training_gpus.GpuSampler()
    if hang:
        wait_until(hanging.exists)
    assert sampler.stop().watched is None
    sampler._listed.result(100)
    assert not any(child.alive for child in sampler._children._running)


def test_a_record_of_gpus_that_is_not_valid_is_none(tmp_path: Path) -> None:
    (tmp_path / "gpus.json").write_text('{"type": "TrainingGpus", "gpus": 5}')
    assert read_gpus(tmp_path).gpus is None
